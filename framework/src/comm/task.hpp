// SPDX-License-Identifier: Apache-2.0
// An operation that moves on a thread of its own, and how others wait for it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>

#include "base/activity.hpp"
#include "trireme/communicator.hpp"

namespace trireme {

// An operation that Progress advances in small steps that never block.
class Task : public Operation, private Awaited {
 public:
  enum class Advance { kWaiting, kMoved, kComplete };  // kMoved: worth calling again at once

  // timeout: from the first step on; zero or less: none.
  explicit Task(std::chrono::milliseconds timeout) : timeout_(timeout) {}

  bool settled() const { return state_.load(std::memory_order_acquire) != State::kPending; }

  bool test() override;
  void wait() override;
  void abandon() noexcept override;
  std::chrono::steady_clock::time_point completed_at() const override { return completed_at_; }

 protected:
  // Called until it returns kComplete or throws a std::exception: on the progress thread only, or
  // by anyone (callers_help), but by one thread at a time. Only a step that finds nothing to do can
  // be found late: what moves has nobody to wait for.
  virtual Advance advance() = 0;
  // Whether callers that wait advance it, too. A step that throws must throw again when it is
  // repeated.
  virtual bool callers_help() const { return false; }
  // Whether callers that help look again at once for a while, or give up their core after each
  // look: to others of the node that have no core of their own.
  virtual bool helpers_spin() const { return false; }
  // For messages: the operation, and what it still waits for ("rank 1, 3"; empty: for nobody any
  // more). Called like advance(); describe() at any time.
  virtual std::string describe() const = 0;
  virtual std::string waits_for() const = 0;

 private:
  friend class Progress;
  enum class State { kPending, kComplete, kFailed };

  using Now = std::optional<std::chrono::steady_clock::time_point>;
  // One step and its consequence; kWaiting where another thread is at it. Throws CommError where it
  // fails or is late: then the progress thread fails everything. now: empty where nobody has looked
  // at the clock, which takes as long as a small step; it is not found late then.
  Advance try_step(Now now);
  void fail(const std::string& reason);  // unless it is complete

  // Under stepping_.
  Advance step(Now now);
  void settle(State state, std::exception_ptr error);

  // Of a caller that waits, for its watchdog.
  std::string describe_wait() override;

  // Callers. False: the progress thread did not answer in time.
  bool wait_until_settled();
  bool help_until_settled();  // false: it failed, which the progress thread is about to tell
  std::optional<Advance> help(Now now) noexcept;  // nothing: it failed

  const std::chrono::milliseconds timeout_;
  std::mutex stepping_;
  // Under stepping_: since when it waits, and when the clock was last seen; epoch: not yet.
  std::chrono::steady_clock::time_point started_at_, seen_at_;
  std::exception_ptr error_;                            // written before state_ is kFailed
  std::chrono::steady_clock::time_point completed_at_;  // written before state_ is kComplete
  std::atomic<State> state_ = State::kPending;
  std::mutex mutex_;
  std::condition_variable settled_;
};

}  // namespace trireme
