// SPDX-License-Identifier: Apache-2.0
#include "train/rank_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/activity.hpp"
#include "comm/threads.hpp"

namespace trireme::test {
namespace {

// Comes to the sum when all others have waited in it for 100 ms.
void come_last(const std::vector<ActivityRecord>& records, std::size_t own) {
  constexpr std::int64_t kNs = 100'000'000;
  const auto waits = [&](std::size_t r) {
    auto& field = const_cast<std::int64_t&>(records[r].waiting_since_ns);
    const std::int64_t since = std::atomic_ref(field).load();
    return since != 0 && now_ns() - since > kNs;
  };
  for (std::size_t r = 0; r < records.size(); ++r) {
    while (r != own && !waits(r)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(RankReportTest, NamesTheRankThatTheOthersWaitFor) {
  constexpr int kRanks = 3, kLate = 1;
  std::vector<ActivityRecord> records(kRanks);
  std::vector<RanksEvent> events(kRanks);
  run_as_threads(kRanks, [&](Communicator& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    Activity activity(records[rank]);
    const ActivityScope scope(activity);
    enter_phase(Phase::kBackward);
    if (rank == kLate) come_last(records, rank);
    enter_phase(Phase::kGradients);
    double number = 1;
    world.all_reduce({&number, 1, DType::kF64}).wait();
    enter_phase(Phase::kReport);
    events[rank] = report_ranks({.step = 9, .steps = 1}, "host" + std::to_string(rank), world);
  });
  for (const RanksEvent& event : events) {
    ASSERT_EQ(event.ranks.size(), 3);
    EXPECT_EQ(event.straggler, kLate);
    const RankTimes& late = event.ranks[kLate];
    EXPECT_EQ(late.host, "host1");
    EXPECT_EQ(late.late_at, "gradients");
    EXPECT_GT(late.late_ms, 50);
    EXPECT_GT(late.compute_ms, 50);
    for (const int other : {0, 2}) {
      EXPECT_GE(event.ranks[static_cast<std::size_t>(other)].waited_ms, 100);
      EXPECT_LT(event.ranks[static_cast<std::size_t>(other)].late_ms, late.late_ms);
    }
  }
}

TEST(RankReportTest, IsEmptyWhereNobodyKeepsTimes) {
  run_as_threads(2, [](Communicator& world) {
    EXPECT_TRUE(report_ranks({.step = 1, .steps = 1}, "host", world).ranks.empty());
  });
}

}  // namespace
}  // namespace trireme::test
