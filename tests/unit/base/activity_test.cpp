// SPDX-License-Identifier: Apache-2.0
#include "base/activity.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace trireme::test {
namespace {

class SomeSum : public Awaited {
 public:
  std::string describe_wait() override { return "a sum waits for rank 1"; }
};

const Activity::Times& of(const std::array<Activity::Times, kNumPhases>& times, Phase phase) {
  return times[static_cast<std::size_t>(phase)];
}

void pass_some_time() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

TEST(ActivityTest, IsShownInItsRecord) {
  ActivityRecord record{};
  Activity activity(record);
  EXPECT_EQ(record.pid, getpid());
  EXPECT_EQ(record.step, 0);
  const ActivityScope scope(activity);
  enter_step(7);
  enter_phase(Phase::kBackward);
  EXPECT_EQ(record.step, 7);
  EXPECT_EQ(kPhases[static_cast<std::size_t>(record.phase)].name, "backward");
  const std::int64_t before = record.since_ns;
  enter_phase(Phase::kBackward);
  EXPECT_GT(record.since_ns, before) << "to enter a phase again is to have come on";
  EXPECT_EQ(record.waiting_since_ns, 0);
}

TEST(ActivityTest, AThreadWithoutOneMayPassEverything) {
  EXPECT_EQ(activity_of_this_thread(), nullptr);
  enter_step(1);
  enter_phase(Phase::kForward);
  SomeSum sum;
  const WaitScope waiting(sum);
}

TEST(ActivityTest, TellsAnotherThreadWhatItWaitsForOnlyWhileItDoes) {
  ActivityRecord record{};
  Activity activity(record);
  const auto seen_by_another = [&] {
    std::string text;
    std::thread([&] { text = activity.describe_wait(); }).join();
    return text;
  };
  const ActivityScope scope(activity);
  EXPECT_EQ(seen_by_another(), "");
  {
    SomeSum sum, inner;
    const WaitScope waiting(sum);
    const WaitScope nested(inner);
    EXPECT_EQ(seen_by_another(), "a sum waits for rank 1");
    EXPECT_NE(record.waiting_since_ns, 0);
  }
  EXPECT_EQ(seen_by_another(), "");
  EXPECT_EQ(record.waiting_since_ns, 0);
}

TEST(ActivityTest, DividesTimeAmongPhases) {
  ActivityRecord record{};
  const std::int64_t start = now_ns();
  Activity activity(record);
  const ActivityScope scope(activity);
  enter_phase(Phase::kForward);
  pass_some_time();
  enter_phase(Phase::kGradients);
  {
    SomeSum sum;
    const WaitScope waiting(sum);
    pass_some_time();
  }
  pass_some_time();
  enter_phase(Phase::kForward);
  pass_some_time();
  const auto times = activity.take_times();
  const double elapsed = static_cast<double>(now_ns() - start) * 1e-9;
  EXPECT_GE(of(times, Phase::kForward).total, 0.004);  // twice what was slept
  EXPECT_EQ(of(times, Phase::kForward).waited, 0);
  EXPECT_GE(of(times, Phase::kGradients).waited, 0.002);
  EXPECT_GE(of(times, Phase::kGradients).total, of(times, Phase::kGradients).waited + 0.002);
  double sum = 0;
  for (const Activity::Times& phase : times) sum += phase.total;
  EXPECT_LE(sum, elapsed);
  EXPECT_EQ(of(activity.take_times(), Phase::kGradients).total, 0) << "taken once";
}

}  // namespace
}  // namespace trireme::test
