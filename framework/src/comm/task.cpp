// SPDX-License-Identifier: Apache-2.0
#include "comm/task.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <utility>

#include "base/cores.hpp"
#include "base/inject.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

// A waiting caller looks this often before it sleeps: some 10 us.
constexpr int kCallerSpins = 1000;
// One that helps looks this often between turns of others, some 1 ms, before it naps.
constexpr int kCallerYields = 2000;
constexpr timespec kCallerNap{.tv_sec = 0, .tv_nsec = 50'000};
// How long the progress thread may take to notice a time-out before a caller gives up on it.
constexpr std::chrono::milliseconds kGrace = std::chrono::seconds(1);
// A waiting task is looked at some thousand times a second. Nobody has looked for so long: it was
// this process that stood still (suspended by Slurm, a stop, a laptop's lid), and the others may
// have, too.
constexpr std::chrono::milliseconds kAsleep = std::chrono::seconds(1);

// Or the system does not tell, as on machines of more than 1024 cores.
bool has_second_core() {
  const std::string own = core_list();
  return count_cores({&own, 1}) != 1;
}

int caller_spins() {
  static const int spins = has_second_core() ? kCallerSpins : 0;
  return spins;
}

}  // namespace

bool Task::test() {
  if (callers_help() && !settled()) help({});
  const State state = state_.load(std::memory_order_acquire);
  if (state == State::kFailed) std::rethrow_exception(error_);
  return state == State::kComplete;
}

void Task::wait() {
  fault_point(FaultPoint::kCollectiveWait);
  const WaitScope waiting(*this);
  if (wait_until_settled()) {
    test();  // throws what the task failed with
    return;
  }
  throw CommError("no answer from the progress thread within " +
                  std::to_string((timeout_ + kGrace).count()) +
                  " ms: a call of the MPI library hangs");
}

std::string Task::describe_wait() {
  const std::unique_lock lock(stepping_, std::try_to_lock);
  const std::string missing = lock.owns_lock() && !settled() ? waits_for() : std::string();
  return missing.empty() ? missing : describe() + " waits for " + missing;
}

void Task::abandon() noexcept { static_cast<void>(wait_until_settled()); }

bool Task::wait_until_settled() {
  const bool failed = callers_help() && !help_until_settled();
  for (int i = 0; i < caller_spins(); ++i) {
    if (settled()) return true;
    __builtin_ia32_pause();
  }
  std::unique_lock lock(mutex_);
  if (timeout_.count() > 0) {
    // In slices, of which a time that the process stood still spoils one.
    for (auto left = failed ? kGrace : timeout_ + kGrace; left.count() > 0; left -= kGrace) {
      if (settled_.wait_for(lock, std::min(left, kGrace), [this] { return settled(); }))
        return true;
    }
    return false;
  }
  settled_.wait(lock, [this] { return settled(); });
  return true;
}

bool Task::help_until_settled() {
  const int spins = helpers_spin() ? kCallerSpins : 0;
  Now now;
  for (int idle = 0; !settled(); ++idle) {
    const std::optional<Advance> result = help(now);
    if (!result) return false;  // the progress thread comes to the same error, and tells everyone
    if (*result == Advance::kMoved) idle = 0;
    if (idle < spins) {
      __builtin_ia32_pause();
      continue;
    }
    if (idle < spins + kCallerYields) {
      sched_yield();  // always succeeds on Linux
    } else {
      nanosleep(&kCallerNap, nullptr);  // a signal shortens it
    }
    now = Clock::now();
  }
  return true;
}

std::optional<Task::Advance> Task::help(Now now) noexcept {
  try {
    return try_step(now);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

Task::Advance Task::try_step(Now now) {
  const std::unique_lock lock(stepping_, std::try_to_lock);
  if (!lock.owns_lock()) return Advance::kWaiting;
  if (settled()) return Advance::kComplete;
  const Advance result = step(now);
  if (result == Advance::kComplete) settle(State::kComplete, nullptr);
  return result;
}

Task::Advance Task::step(Now now) {
  if (now) {
    if (started_at_ == Clock::time_point{}) started_at_ = seen_at_ = *now;
    if (*now - seen_at_ > kAsleep) started_at_ += *now - seen_at_;
    seen_at_ = std::max(seen_at_, *now);
  }
  try {
    const Advance result = advance();
    const bool late = now && timeout_.count() > 0 && *now - started_at_ > timeout_;
    // Empty where the last one has come since.
    const std::string missing = late && result == Advance::kWaiting ? waits_for() : std::string();
    if (!missing.empty()) {
      throw CommError("not complete after " + std::to_string(timeout_.count()) +
                      " ms; waiting for " + missing +
                      ", which is stopped, lost, slower than the time-out allows, or waits for "
                      "another itself");
    }
    return result;
  } catch (const std::exception& error) {
    throw CommError(describe() + ": " + error.what());
  }
}

void Task::fail(const std::string& reason) {
  const std::lock_guard lock(stepping_);  // nobody is in the middle of a step
  if (settled()) return;
  settle(State::kFailed, std::make_exception_ptr(CommError(reason)));
}

void Task::settle(State state, std::exception_ptr error) {
  completed_at_ = Clock::now();
  error_ = std::move(error);
  const std::lock_guard lock(mutex_);
  state_.store(state, std::memory_order_release);
  settled_.notify_all();
}

}  // namespace trireme
