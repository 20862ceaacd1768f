// SPDX-License-Identifier: Apache-2.0
// An operation that moves on a thread of its own, and how others wait for it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>

#include "trireme/communicator.hpp"

namespace trireme {

// An operation that Progress advances in small steps that never block.
class Task : public Operation {
 public:
  enum class Advance { kWaiting, kMoved, kComplete };  // kMoved: worth calling again at once

  // timeout: from the first step on; zero or less: none.
  explicit Task(std::chrono::milliseconds timeout) : timeout_(timeout) {}

  bool test() override;
  void wait() override;
  void abandon() noexcept override;
  std::chrono::steady_clock::time_point completed_at() const override { return completed_at_; }

 protected:
  // Called on the progress thread only, until it returns kComplete or throws a std::exception.
  virtual Advance advance() = 0;
  // For messages: the operation, and what it still waits for ("rank 1, 3"). Progress thread only.
  virtual std::string describe() const = 0;
  virtual std::string waits_for() const = 0;

 private:
  friend class Progress;
  enum class State { kPending, kComplete, kFailed };

  // Progress thread. One step; throws CommError where it fails or is late.
  Advance step(std::chrono::steady_clock::time_point now);
  void complete() { settle(State::kComplete, nullptr); }
  void fail(const std::string& reason);
  void settle(State state, std::exception_ptr error);

  // Callers. False: the progress thread did not answer in time.
  bool wait_until_settled();

  const std::chrono::milliseconds timeout_;
  std::chrono::steady_clock::time_point started_at_;    // progress thread only; epoch: not yet
  std::exception_ptr error_;                            // written before state_ is kFailed
  std::chrono::steady_clock::time_point completed_at_;  // written before state_ is kComplete
  std::atomic<State> state_ = State::kPending;
  std::mutex mutex_;
  std::condition_variable settled_;
};

}  // namespace trireme
