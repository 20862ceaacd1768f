// SPDX-License-Identifier: Apache-2.0
// The progress thread with tasks that are no MPI.
#include "comm/progress.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "trireme/error.hpp"

namespace trireme {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Does what `step` says.
class TestTask : public Task {
 public:
  explicit TestTask(std::string name, std::function<Advance()> step,
                    milliseconds timeout = milliseconds(0))
      : Task(timeout), name_(std::move(name)), step_(std::move(step)) {}

 protected:
  Advance advance() override { return step_(); }
  std::string describe() const override { return name_; }
  std::string waits_for() const override { return "rank 5"; }

 private:
  const std::string name_;
  const std::function<Advance()> step_;
};

Task::Advance wait_for(const std::atomic<bool>& flag) {
  return flag ? Task::Advance::kComplete : Task::Advance::kWaiting;
}

std::string error_of(Task& task) {
  try {
    task.wait();
  } catch (const CommError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(Progress, TasksPassEachOther) {
  Progress progress([] {});
  std::atomic<bool> go = false;
  const auto first = std::make_shared<TestTask>("first", [&] { return wait_for(go); });
  const auto second = std::make_shared<TestTask>("second", [] { return Task::Advance::kComplete; });
  progress.post(first);
  progress.post(second);
  second->wait();
  EXPECT_FALSE(first->test());
  go = true;
  first->wait();
  EXPECT_TRUE(first->test());
  EXPECT_GE(first->completed_at(), second->completed_at());
}

TEST(Progress, StepsRunOnItsOwnThreadUntilTheTaskIsComplete) {
  Progress progress([] {});
  int steps = 0;  // written by the progress thread, read after wait()
  std::thread::id thread;
  const auto task = std::make_shared<TestTask>("task", [&] {
    thread = std::this_thread::get_id();
    return ++steps < 1000 ? Task::Advance::kWaiting : Task::Advance::kComplete;
  });
  progress.post(task);
  task->wait();
  EXPECT_EQ(steps, 1000);
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(Progress, AnErrorReachesWhoWaitsAndEndsEverythingElse) {
  Progress progress([] {});
  std::atomic<bool> go = false;
  const std::atomic<bool> never = false;
  const auto bystander = std::make_shared<TestTask>("bystander", [&] { return wait_for(never); });
  const auto culprit = std::make_shared<TestTask>("culprit", [&]() -> Task::Advance {
    if (!go) return Task::Advance::kWaiting;
    throw std::runtime_error("the wire broke");
  });
  progress.post(bystander);
  progress.post(culprit);
  go = true;
  EXPECT_EQ(error_of(*culprit), "culprit: the wire broke");
  EXPECT_THAT(error_of(*bystander),
              AllOf(HasSubstr("bystander was given up"), HasSubstr("the wire broke")));
  EXPECT_THROW(culprit->test(), CommError);
  EXPECT_THROW(progress.post(bystander), CommError);
}

TEST(Progress, ATaskThatIsLateFailsAndSaysWhatItWaitsFor) {
  Progress progress([] {});
  const std::atomic<bool> never = false;
  const auto task = std::make_shared<TestTask>(
      "late", [&] { return wait_for(never); }, milliseconds(20));
  progress.post(task);
  EXPECT_THAT(error_of(*task),
              AllOf(HasSubstr("late: not complete after 20 ms"), HasSubstr("rank 5")));
}

// Whoever waits for nobody is not late, however long it takes.
TEST(Progress, ATaskThatStillMovesIsNotLate) {
  Progress progress([] {});
  const auto end = std::chrono::steady_clock::now() + milliseconds(60);
  const auto task = std::make_shared<TestTask>(
      "slow",
      [end] {
        return std::chrono::steady_clock::now() < end ? Task::Advance::kMoved
                                                      : Task::Advance::kComplete;
      },
      milliseconds(20));
  progress.post(task);
  task->wait();
  EXPECT_TRUE(task->test());
}

// As after SIGSTOP and SIGCONT: what this process slept is nobody's silence.
TEST(Progress, TimeInWhichTheProcessItselfStoodStillDoesNotCount) {
  Progress progress([] {});
  int steps = 0;
  const auto task = std::make_shared<TestTask>(
      "suspended",
      [&steps] {
        if (++steps == 2) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        return steps < 5 ? Task::Advance::kWaiting : Task::Advance::kComplete;
      },
      milliseconds(1200));
  progress.post(task);
  task->wait();
  EXPECT_EQ(steps, 5);
}

TEST(Progress, StoppingFailsWhatIsInFlight) {
  Progress progress([] {});
  const std::atomic<bool> never = false;
  const auto task = std::make_shared<TestTask>("task", [&] { return wait_for(never); });
  progress.post(task);
  EXPECT_TRUE(progress.stop(std::chrono::seconds(30)));
  EXPECT_THAT(error_of(*task), HasSubstr("stopped"));
  EXPECT_THROW(progress.post(task), CommError);
}

TEST(Progress, AHangingStepBlocksNeitherWaitersNorStop) {
  const auto release = std::make_shared<std::atomic<bool>>(false);
  const auto ended = std::make_shared<std::atomic<bool>>(false);
  const auto task = std::make_shared<TestTask>(
      "task",
      [release, ended] {
        release->wait(false);
        *ended = true;
        ended->notify_all();
        return Task::Advance::kComplete;
      },
      milliseconds(10));
  {
    Progress progress([] {});
    progress.post(task);
    EXPECT_THAT(error_of(*task), HasSubstr("no answer from the progress thread"));
    EXPECT_FALSE(progress.stop(milliseconds(1)));
  }  // leaves the thread behind
  *release = true;
  release->notify_all();
  ended->wait(false);
}

TEST(Progress, IdleStepsGoOnWithoutTasks) {
  std::atomic<int> steps = 0;
  Progress progress([&] {
    ++steps;
    steps.notify_all();
  });
  for (int seen = steps; seen < 3; seen = steps) steps.wait(seen);
  EXPECT_GE(steps, 3);
}

}  // namespace
}  // namespace trireme
