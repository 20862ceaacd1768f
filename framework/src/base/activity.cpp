// SPDX-License-Identifier: Apache-2.0
#include "base/activity.hpp"

#include <time.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "trireme/error.hpp"

namespace trireme {
namespace {

thread_local Activity* current = nullptr;

void show(std::int64_t& field, std::int64_t value) {
  std::atomic_ref(field).store(value, std::memory_order_release);
}

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace

constexpr bool in_order() {
  for (std::size_t p = 0; p < kNumPhases; ++p) {
    if (static_cast<std::size_t>(kPhases[p].phase) != p) return false;
  }
  return true;
}
static_assert(in_order());

std::int64_t now_ns() {
  constexpr std::int64_t kPerSecond = 1'000'000'000;
  timespec now{};
  TRIREME_ASSERT(clock_gettime(CLOCK_MONOTONIC, &now) == 0, "there is no monotonic clock");
  return now.tv_sec * kPerSecond + now.tv_nsec;
}

Activity::Activity(ActivityRecord& record) : record_(record), entered_ns_(now_ns()) {
  show(record_.pid, getpid());
  show(record_.step, 0);
  show(record_.phase, static_cast<std::int64_t>(phase_));
  show(record_.waiting_since_ns, 0);
  show(record_.since_ns, entered_ns_);
}

void Activity::begin_step(std::int64_t step) { show(record_.step, step); }

void Activity::enter(Phase phase) {
  const std::int64_t now = now_ns();
  close_phase(now);
  phase_ = phase;
  show(record_.since_ns, now);
  show(record_.phase, static_cast<std::int64_t>(phase));
}

void Activity::close_phase(std::int64_t now) {
  times_[static_cast<std::size_t>(phase_)].total += seconds(now - entered_ns_);
  entered_ns_ = now;
}

void Activity::begin_wait(Awaited& awaited) {
  if (wait_depth_++ > 0) return;
  wait_began_ns_ = now_ns();
  {
    const std::lock_guard lock(mutex_);
    awaited_ = &awaited;
  }
  show(record_.waiting_since_ns, wait_began_ns_);
}

void Activity::end_wait() {
  if (--wait_depth_ > 0) return;
  {
    const std::lock_guard lock(mutex_);
    awaited_ = nullptr;
  }
  const std::int64_t now = now_ns();
  show(record_.since_ns, now);
  show(record_.waiting_since_ns, 0);
  times_[static_cast<std::size_t>(phase_)].waited += seconds(now - wait_began_ns_);
}

std::array<Activity::Times, kNumPhases> Activity::take_times() {
  close_phase(now_ns());
  return std::exchange(times_, {});
}

std::string Activity::describe_wait() {
  const std::lock_guard lock(mutex_);
  return awaited_ != nullptr ? awaited_->describe_wait() : std::string();
}

ActivityScope::ActivityScope(Activity& activity) : before_(std::exchange(current, &activity)) {}
ActivityScope::~ActivityScope() { current = before_; }

Activity* activity_of_this_thread() { return current; }

void enter_step(std::int64_t step) {
  if (current != nullptr) current->begin_step(step);
}

void enter_phase(Phase phase) {
  if (current != nullptr) current->enter(phase);
}

WaitScope::WaitScope(Awaited& awaited) : activity_(current) {
  if (activity_ != nullptr) activity_->begin_wait(awaited);
}
WaitScope::~WaitScope() {
  if (activity_ != nullptr) activity_->end_wait();
}

}  // namespace trireme
