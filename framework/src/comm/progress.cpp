// SPDX-License-Identifier: Apache-2.0
#include "comm/progress.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/inject.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// Tasks that wait for the thread to wake by itself; beyond, those that are done are forgotten.
constexpr std::size_t kUnseen = 64;

// How long to pause until the next poll. See Note [Waiting without starving].
class Pause {
 public:
  void reset() { polls_ = 0; }

  // With tasks in flight; zero: poll again at once (the core may have been yielded).
  microseconds next_active() {
    constexpr int kSpins = 20;
    constexpr int kYields = 20;
    ++polls_;
    if (polls_ > kSpins + kYields) {
      return std::min(microseconds(50) + microseconds(polls_), microseconds(200));
    }
    if (polls_ > kSpins) sched_yield();  // always succeeds on Linux
    return microseconds(0);
  }

  microseconds next_idle() {
    polls_ = std::min(polls_ + 1, 1000);
    return polls_ < 500 ? milliseconds(2) : milliseconds(20);
  }

 private:
  int polls_ = 0;  // since something moved
};

}  // namespace

// What the thread runs, and what it shares with the callers.
class Progress::Loop {
 public:
  explicit Loop(std::function<void()> idle_step) : idle_step_(std::move(idle_step)) {}

  void post(std::shared_ptr<Task> task, Wake wake);
  void require_running() const;
  bool stop(milliseconds limit);
  void run();

 private:
  // False: stopped.
  bool take_posted();
  // Throws CommError where a task fails.
  void advance_active();
  void fail_all(const std::string& reason);

  const std::function<void()> idle_step_;

  // Progress thread only.
  std::vector<std::shared_ptr<Task>> active_;
  Task* stepping_ = nullptr;
  Pause pause_;

  mutable std::mutex mutex_;
  std::condition_variable posted_or_stopping_;
  std::condition_variable ended_changed_;
  std::vector<std::shared_ptr<Task>> posted_;
  bool stopping_ = false;
  bool ended_ = false;
  std::string reason_;  // why nothing more can be posted; empty: it can
  std::atomic<bool> has_reason_ = false;
};

void Progress::Loop::post(std::shared_ptr<Task> task, Wake wake) {
  {
    const std::lock_guard lock(mutex_);
    if (!reason_.empty()) throw CommError("communication has ended: " + reason_);
    if (wake == Wake::kLater && posted_.size() >= kUnseen) {
      std::erase_if(posted_, [](const auto& posted) { return posted->settled(); });
    }
    posted_.push_back(std::move(task));
  }
  if (wake == Wake::kNow) posted_or_stopping_.notify_one();
}

void Progress::Loop::require_running() const {
  if (!has_reason_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  throw CommError("communication has ended: " + reason_);
}

bool Progress::Loop::stop(milliseconds limit) {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  posted_or_stopping_.notify_one();
  return ended_changed_.wait_for(lock, limit, [this] { return ended_; });
}

void Progress::Loop::run() {
  std::string reason = "it was stopped";
  try {
    while (take_posted()) {
      if (active_.empty()) {
        idle_step_();
      } else {
        advance_active();
      }
    }
  } catch (const std::exception& error) {
    reason = error.what();
  }
  fail_all(reason);
}

bool Progress::Loop::take_posted() {
  std::unique_lock lock(mutex_);
  const auto called = [this] { return stopping_ || !posted_.empty(); };
  if (!called()) {
    const microseconds pause = active_.empty() ? pause_.next_idle() : pause_.next_active();
    if (pause.count() > 0) posted_or_stopping_.wait_for(lock, pause, called);
  }
  if (stopping_) return false;
  if (!posted_.empty()) pause_.reset();
  std::move(posted_.begin(), posted_.end(), std::back_inserter(active_));
  posted_.clear();
  return true;
}

void Progress::Loop::advance_active() {
  fault_point(FaultPoint::kProgressStep);
  const Clock::time_point now = Clock::now();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < active_.size(); ++i) {
    stepping_ = active_[i].get();
    const Task::Advance result = stepping_->try_step(now);
    if (result != Task::Advance::kWaiting) pause_.reset();
    if (result == Task::Advance::kComplete) {
      active_[i].reset();
    } else if (kept++ != i) {
      active_[kept - 1] = std::move(active_[i]);
    }
    stepping_ = nullptr;
  }
  active_.resize(kept);
}

void Progress::Loop::fail_all(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  reason_ = reason;
  has_reason_.store(true, std::memory_order_release);
  std::move(posted_.begin(), posted_.end(), std::back_inserter(active_));
  posted_.clear();
  for (const auto& task : active_) {
    if (!task) continue;  // completed in this round
    // The culprit's reason names it already.
    task->fail(task.get() == stepping_ ? reason : task->describe() + " was given up: " + reason);
  }
  active_.clear();
  ended_ = true;
  ended_changed_.notify_all();
}

Progress::Progress(std::function<void()> idle_step)
    : loop_(std::make_shared<Loop>(std::move(idle_step))),
      thread_([loop = loop_] { loop->run(); }) {}

Progress::~Progress() {
  if (stop(std::chrono::seconds(1))) {
    thread_.join();
  } else {
    thread_.detach();  // hangs in a step: it must not take the rest of the process with it
  }
}

void Progress::post(std::shared_ptr<Task> task, Wake wake) { loop_->post(std::move(task), wake); }

void Progress::require_running() const { loop_->require_running(); }

bool Progress::stop(milliseconds limit) { return loop_->stop(limit); }

}  // namespace trireme
