// SPDX-License-Identifier: Apache-2.0
#include "app/watchdog.hpp"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <utility>

#include "base/stack.hpp"

namespace trireme {

namespace {

// By std::atomic_ref only.
struct SpokenError {
  alignas(64) std::int64_t spoken;  // 1: a rank of the node has told of an error
  std::int64_t words;               // a hash of what it said
};

constexpr std::int64_t kNsPerMs = 1'000'000;
constexpr std::int64_t kNsPerSecond = 1'000 * kNsPerMs;

constexpr const char* kNoCore = "not getting a core";

std::int64_t read(std::int64_t& field) {
  return std::atomic_ref(field).load(std::memory_order_acquire);
}

std::size_t board_bytes(int local_size) {
  return sizeof(SpokenError) + static_cast<std::size_t>(local_size) * sizeof(ActivityRecord);
}

std::string seconds_text(std::int64_t ns) {
  std::ostringstream text;
  const double seconds = static_cast<double>(ns) / kNsPerSecond;
  text << std::fixed << std::setprecision(seconds < 10 ? 1 : 0) << seconds << " s";
  return text.str();
}

// What the kernel says of a process: "stopped (by SIGSTOP or a debugger)".
std::string process_state(std::int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return "gone";
  switch (text[name_end + 2]) {
    case 'T':
    case 't':
      return "stopped, by SIGSTOP, a terminal or a debugger";
    case 'D':
      return "hanging in the kernel, as on a disk or network file system that does not answer";
    case 'Z':
    case 'X':
      return "dead";
    default:
      return kNoCore;
  }
}

const PhaseSpec& phase_of(ActivityRecord& record) {
  return kPhases[static_cast<std::size_t>(read(record.phase))];
}

}  // namespace

Watchdog::Watchdog(Communicator& world, const Options& options)
    : options_(options),
      placement_(world.placement()),
      warn_ns_(options.timeout.count() * kNsPerMs / 10),
      last_ns_(options.timeout.count() * kNsPerMs / 10 * 9),
      interval_ns_(std::clamp(warn_ns_ / 4, 20 * kNsPerMs, kNsPerSecond)),
      memory_(world.allocate_shared(board_bytes(placement_.local_size))) {
  ActivityRecord& own = record(placement_.local_rank);
  std::atomic_ref(own.rank).store(world.rank(), std::memory_order_relaxed);
  std::atomic_ref(own.watched_ns).store(now_ns(), std::memory_order_relaxed);
  activity_ = std::make_unique<Activity>(own);
  scope_ = std::make_unique<ActivityScope>(*activity_);
  thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_one();
  thread_.join();
  std::atomic_ref(record(placement_.local_rank).since_ns).store(0, std::memory_order_relaxed);
}

ActivityRecord& Watchdog::record(int local_rank) const {
  return reinterpret_cast<ActivityRecord*>(memory_.data() + sizeof(SpokenError))[local_rank];
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (
      !stopping_.wait_for(lock, std::chrono::nanoseconds(interval_ns_), [this] { return stop_; })) {
    lock.unlock();
    look(now_ns());
    lock.lock();
  }
}

void Watchdog::look(std::int64_t now) {
  const bool slept = looked_ns_ != 0 && now - looked_ns_ > interval_ns_ + kNsPerSecond;
  looked_ns_ = now;
  std::atomic_ref(record(placement_.local_rank).watched_ns).store(now, std::memory_order_relaxed);
  auto& error = *reinterpret_cast<SpokenError*>(memory_.data());
  // The others may have, too; or the job is being ended.
  if (slept || read(error.spoken) != 0) return;
  look_at_own(now);
  look_at_waiting(now);
  look_at_neighbours(now);
  looked_ns_ = now_ns();  // to ask for a stack may have taken a while
}

// text ends with its last line.
void Watchdog::warn(const std::string& text) {
  std::cerr << "trireme: warning: " + text << std::flush;
  const std::lock_guard lock(mutex_);
  warnings_.push_back(text);
}

std::vector<std::string> Watchdog::take_warnings() {
  const std::lock_guard lock(mutex_);
  return std::exchange(warnings_, {});
}

void Watchdog::look_at_own(std::int64_t now) {
  ActivityRecord& own = record(placement_.local_rank);
  if (read(own.waiting_since_ns) != 0 || phase_of(own).is_long) return;
  const std::int64_t since = read(own.since_ns), age = now - since;
  if (age < warn_ns_) return;
  if (!is_news(age < last_ns_ ? "own" : "own, at last", since)) return;
  warn(name(placement_.local_rank) + " has not come on for " + seconds_text(age) + ", in " +
       place(placement_.local_rank) + "; its stack:\n" + stack_of(trainer_));
}

void Watchdog::look_at_waiting(std::int64_t now) {
  if (placement_.node != 0) return;
  const auto waits = [&](int local_rank) {
    const std::int64_t since = read(record(local_rank).waiting_since_ns);
    return since != 0 && now - since >= warn_ns_;
  };
  for (int l = 0; l < placement_.local_rank; ++l) {
    if (!has_ended(l) && waits(l) && is_awake(l, now)) return;
  }
  const std::int64_t since = read(record(placement_.local_rank).waiting_since_ns);
  if (!waits(placement_.local_rank)) return;
  const std::string what = activity_->describe_wait();
  if (what.empty() || !is_news("waiting", since)) return;
  warn(name(placement_.local_rank) + " has waited for " + seconds_text(now - since) + " in " +
       place(placement_.local_rank) + ": " + what + "; the run ends when run.timeout (" +
       seconds_text(options_.timeout.count() * kNsPerMs) + ") is over\n");
}

void Watchdog::look_at_neighbours(std::int64_t now) {
  for (int l = 0; l < placement_.local_rank; ++l) {
    if (!has_ended(l) && is_awake(l, now)) return;  // it looks itself
  }
  for (int l = 0; l < placement_.local_size; ++l) {
    if (l == placement_.local_rank || has_ended(l) || is_awake(l, now)) continue;
    const std::string state = process_state(read(record(l).pid));
    // A crowded machine is no stall.
    if (state == kNoCore && now - read(record(l).watched_ns) < 2 * kNsPerSecond) continue;
    if (!is_news("neighbour " + std::to_string(l), read(record(l).watched_ns))) continue;
    warn(name(l) + " does not run: " + state + "; it was in " + place(l) + "\n");
  }
}

// Or has not begun.
bool Watchdog::has_ended(int local_rank) const { return read(record(local_rank).since_ns) == 0; }

bool Watchdog::is_awake(int local_rank, std::int64_t now) const {
  ActivityRecord& record = this->record(local_rank);
  const std::int64_t limit = std::max(warn_ns_, 4 * interval_ns_);
  return now - read(record.watched_ns) < limit;
}

std::string Watchdog::name(int local_rank) const {
  ActivityRecord& record = this->record(local_rank);
  return "rank " + std::to_string(read(record.rank)) + " (" + options_.host + ", pid " +
         std::to_string(read(record.pid)) + ")";
}

std::string Watchdog::place(int local_rank) const {
  ActivityRecord& record = this->record(local_rank);
  const std::int64_t step = read(record.step);
  return (step > 0 ? "step " + std::to_string(step) + ", " : std::string()) +
         std::string(phase_of(record).name);
}

// Whether this has not been told yet of this episode, which is known by when it began.
bool Watchdog::is_news(const std::string& about, std::int64_t episode) {
  const auto [known, is_new] = warned_.try_emplace(about, episode);
  return is_new || std::exchange(known->second, episode) != episode;
}

std::string Watchdog::describe_culprits() const {
  const std::int64_t now = now_ns();
  std::string text;
  for (int l = 0; l < placement_.local_size; ++l) {
    ActivityRecord& record = this->record(l);
    if (l == placement_.local_rank || has_ended(l)) continue;
    if (!is_awake(l, now)) {
      text += "\n  " + name(l) + " is " + process_state(read(record.pid)) + ", in " + place(l);
    } else if (read(record.waiting_since_ns) == 0 && !phase_of(record).is_long &&
               now - read(record.since_ns) >= warn_ns_) {
      text += "\n  " + name(l) + " has been in " + place(l) + " for " +
              seconds_text(now - read(record.since_ns));
    }
  }
  return text;
}

bool Watchdog::may_say(const std::string& error, bool consequence) {
  auto& board = *reinterpret_cast<SpokenError*>(memory_.data());
  const auto words = static_cast<std::int64_t>(std::hash<std::string>()(error));
  std::int64_t nobody = 0;
  if (std::atomic_ref(board.spoken).compare_exchange_strong(nobody, 1)) {
    std::atomic_ref(board.words).store(words);
    return true;
  }
  return !consequence && std::atomic_ref(board.words).load() != words;
}

}  // namespace trireme
