// SPDX-License-Identifier: Apache-2.0
// What a rank is doing: for the watchdog, which tells of stalls, and for the report of who keeps
// whom waiting.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace trireme {

// Of training, in the order of a step.
enum class Phase : std::uint32_t {
  kStart,       // until the first step
  kInput,       // waiting for the loader
  kForward,     // with the loss
  kBackward,    // with the posting of sums
  kGradients,   // waiting for sums of gradients and buffers
  kAgreement,   // on loss and norm
  kUpdate,      // with the gathering of parameters
  kEvaluation,  // of a data set
  kCheckpoint,  // being taken or waited for
  kReport,      // what is told of steps, and of the ranks' times
  kEnd          // until all ranks have come to it
};

struct PhaseSpec {
  Phase phase;
  std::string_view name;
  bool of_step;  // its time is part of a step's
  bool is_long;  // takes long by its nature: to be in it is no stall
};
// In the order of Phase.
inline constexpr std::array kPhases{
    PhaseSpec{Phase::kStart, "start", false, true},
    PhaseSpec{Phase::kInput, "input", true, false},
    PhaseSpec{Phase::kForward, "forward", true, false},
    PhaseSpec{Phase::kBackward, "backward", true, false},
    PhaseSpec{Phase::kGradients, "gradients", true, false},
    PhaseSpec{Phase::kAgreement, "agreement", true, false},
    PhaseSpec{Phase::kUpdate, "update", true, false},
    PhaseSpec{Phase::kEvaluation, "evaluation", false, false},
    PhaseSpec{Phase::kCheckpoint, "checkpoint", false, true},
    PhaseSpec{Phase::kReport, "report", false, false},
    PhaseSpec{Phase::kEnd, "end", false, false},
};
inline constexpr std::size_t kNumPhases = kPhases.size();

// What a rank shows to the others of its node. Plain numbers that lie in memory shared by them,
// written by this rank only; by std::atomic_ref, released and acquired. since_ns is written before
// phase and waiting_since_ns, and to be read after them: who sees a new phase sees its time, too.
struct ActivityRecord {
  alignas(64) std::int64_t pid;
  std::int64_t rank;
  std::int64_t step;              // that is being done, from 1; 0: none yet
  std::int64_t phase;             // a Phase
  std::int64_t since_ns;          // when it last came on, by now_ns(); 0: it has no activity
  std::int64_t waiting_since_ns;  // for other ranks; 0: it does not wait
  std::int64_t watched_ns;        // when its watchdog was last awake
};

// CLOCK_MONOTONIC, the same for all processes of a machine.
std::int64_t now_ns();

// Something that a thread waits for.
class Awaited {
 public:
  // The operation, and whom it waits for. From any thread, while the wait goes on; empty: not known
  // just now.
  virtual std::string describe_wait() = 0;

 protected:
  ~Awaited() = default;
};

// The activity of one thread that trains. That thread alone changes it.
class Activity {
 public:
  struct Times {  // seconds
    double total = 0;
    double waited = 0;  // of it, for other ranks
  };

  // record: where it is shown; outlives this.
  explicit Activity(ActivityRecord& record);

  void begin_step(std::int64_t step);  // from 1
  // From now on the thread is in this phase. It has come on.
  void enter(Phase phase);
  void begin_wait(Awaited& awaited);
  void end_wait();

  // How long it was in each phase since the last call. [phase]
  std::array<Times, kNumPhases> take_times();

  // Any thread: what it waits for; empty where it does not.
  std::string describe_wait();
  const ActivityRecord& record() const { return record_; }

 private:
  void close_phase(std::int64_t now);

  ActivityRecord& record_;
  Phase phase_ = Phase::kStart;
  std::int64_t entered_ns_ = 0, wait_began_ns_ = 0;
  std::array<Times, kNumPhases> times_{};
  int wait_depth_ = 0;
  std::mutex mutex_;
  Awaited* awaited_ = nullptr;  // under mutex_
};

// Note [The activity of a thread]
// Phases are entered and waits begin in many places of several layers, as ranges of a profiler
// would. They reach the activity of the thread that they are on, if it has one, through this scope,
// so that no signature in between has to carry it. It decides nothing that is computed.
class ActivityScope {
 public:
  explicit ActivityScope(Activity& activity);  // of this thread, until the destructor
  ~ActivityScope();
  ActivityScope(const ActivityScope&) = delete;
  ActivityScope& operator=(const ActivityScope&) = delete;

 private:
  Activity* const before_;
};

Activity* activity_of_this_thread();  // null: it has none
// Of this thread's activity, where it has one.
void enter_step(std::int64_t step);
void enter_phase(Phase phase);

// Marks this thread as waiting, for as long as it lives.
class WaitScope {
 public:
  explicit WaitScope(Awaited& awaited);
  ~WaitScope();
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  Activity* const activity_;
};

}  // namespace trireme
