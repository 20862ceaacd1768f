// SPDX-License-Identifier: Apache-2.0
// Faults at named points of a run, on request (framework/docs/FAULTS.md), so that tests and users
// can see what a fault leads to. Off, a point costs one relaxed load.
//
// Note [Faults are process-wide]
// Points stand in every layer and on every thread, and are no part of what those layers do, so they
// are not handed down as an object: the plan of faults is static storage, set once, before the
// first point, and never changed or freed. Nothing but the injector reads it.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace trireme {

// The table in inject.cpp names and describes them.
enum class FaultPoint : std::uint8_t {
  kStartLaunch,
  kStartReady,
  kDataOpen,
  kDataDecode,
  kDataNext,
  kForward,
  kBackward,
  kGradientPost,
  kCollectiveWait,
  kProgressStep,
  kAgree,
  kUpdate,
  kUpdateDone,
  kEvalBatch,
  kCheckpointBegin,
  kCheckpointOpen,
  kCheckpointWrite,
  kCheckpointFsync,
  kCheckpointWritten,
  kCheckpointManifest,
  kCheckpointRename,
  kCheckpointLatest,
  kCheckpointBest,
  kCheckpointRotate,
  kCheckpointDelete,
  kResumeRead,
  kLogWrite,
  kEnd,
};

enum class FaultAction : std::uint8_t {
  kKill,
  kStop,
  kThrow,
  kNan,
  kSleep,
  kEnospc,
  kBitflip,
  kExit
};

struct Fault {
  int rank = 0;  // kEveryRank: all
  FaultPoint point = FaultPoint::kStartLaunch;
  std::int64_t hit = 1;    // the arrival at the point, from 1, counted on each rank by itself
  bool every_hit = false;  // from that one on
  FaultAction action = FaultAction::kKill;
  double number = 0;  // sleep: seconds; exit: the code

  static constexpr int kEveryRank = -1;
};

// "rank=1,point=checkpoint.rename,hit=3,action=kill". ConfigError for anything else, for a point
// that there is not, and for an action without meaning at the point; it says what there is.
Fault parse_fault(const std::string& text);
// The same words, with the default written out.
std::string text_of(const Fault& fault);

// Lines of a Markdown table: each point, when it is reached, what its `throw` throws, its actions.
std::string fault_reference();

// Once a process, before threads can reach a point. rank: this one; faults of others are ignored.
void arm_faults(const std::vector<Fault>& faults, int rank);
// Of this rank: those that were armed and have not come to pass.
std::vector<std::string> faults_not_reached();

namespace detail {
extern std::atomic<bool> faults_armed;
bool reach(FaultPoint point);
}  // namespace detail

// A point. Where a fault is due it says so on stderr and kills, stops, delays or leaves the
// process, or throws. Any thread.
inline void fault_point(FaultPoint point) {
  if (detail::faults_armed.load(std::memory_order_relaxed)) detail::reach(point);
}
// damage does what `nan` or `bitflip` asks for here; only called when it is.
template <class Damage>
void fault_point(FaultPoint point, const Damage& damage) {
  if (detail::faults_armed.load(std::memory_order_relaxed) && detail::reach(point)) damage();
}

// For `enospc`: what the next system call of base/files on this thread is to fail with; 0: nothing.
// The call takes it.
int take_injected_errno();

// For `bitflip`: one bit in the middle.
void flip_bit(std::span<std::byte> bytes);
void flip_bit(const std::filesystem::path& file);

}  // namespace trireme
