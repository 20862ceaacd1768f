// SPDX-License-Identifier: Apache-2.0
#include "base/inject.hpp"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/inject_table.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

struct ArmedFault {
  explicit ArmedFault(const Fault& what) : fault(what) {}
  const Fault fault;
  std::atomic<std::int64_t> arrivals = 0;
  std::atomic<bool> happened = false;
};

// Note [Faults are process-wide]. Never freed: other threads may look at it until the very end.
struct Plan {
  int rank = 0;
  std::vector<std::unique_ptr<ArmedFault>> faults;
};
std::atomic<Plan*> plan = nullptr;
thread_local int injected_errno = 0;

// One write, so that the ranks' lines stay apart, and nothing of it is lost when the process dies.
void announce(const Fault& fault, std::int64_t arrival, int rank) {
  const std::string text = "trireme: fault injected on rank " + std::to_string(rank) + " at " +
                           point_spec(fault.point).name + ", hit " + std::to_string(arrival) +
                           ": " + action_text(fault) + "\n";
  // Where stderr is gone nobody reads this, and the fault comes all the same.
  static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size()));
}

[[noreturn]] void throw_at(const PointSpec& spec, std::int64_t arrival) {
  const std::string text = std::string("injected fault at ") + spec.name + ", hit " +
                           std::to_string(arrival) + " (--inject)";
  switch (spec.thrown) {
    case Thrown::kData:
      throw DataError(text);
    case Thrown::kCheckpoint:
      throw CheckpointError(text);
    case Thrown::kCommunication:
      throw CommError(text);
    case Thrown::kEnvironment:
      throw EnvironmentError(text);
    case Thrown::kForeign:
      break;
  }
  throw std::runtime_error(text);
}

// Whether the caller has to do its part.
bool carry_out(const Fault& fault, std::int64_t arrival, int rank) {
  announce(fault, arrival, rank);
  switch (fault.action) {
    case FaultAction::kKill:
    case FaultAction::kStop:
      ::raise(fault.action == FaultAction::kKill ? SIGKILL : SIGSTOP);
      return false;
    case FaultAction::kThrow:
      throw_at(point_spec(fault.point), arrival);
    case FaultAction::kSleep:
      std::this_thread::sleep_for(std::chrono::duration<double>(fault.number));
      return false;
    case FaultAction::kEnospc:
      injected_errno = ENOSPC;
      return false;
    case FaultAction::kExit:
      ::_exit(static_cast<int>(fault.number));
    case FaultAction::kNan:
    case FaultAction::kBitflip:
      return true;
  }
  TRIREME_ASSERT(false, "unknown action");
}

}  // namespace

namespace detail {

std::atomic<bool> faults_armed = false;

bool reach(FaultPoint point) {
  bool damaged = false;
  Plan* const armed = plan.load(std::memory_order_acquire);
  for (const auto& candidate : armed->faults) {
    const Fault& fault = candidate->fault;
    if (fault.point != point) continue;
    const std::int64_t arrival = ++candidate->arrivals;
    if (fault.every_hit ? arrival < fault.hit : arrival != fault.hit) continue;
    candidate->happened = true;
    damaged = carry_out(fault, arrival, armed->rank) || damaged;
  }
  return damaged;
}

}  // namespace detail

void arm_faults(const std::vector<Fault>& faults, int rank) {
  TRIREME_ASSERT(plan.load() == nullptr, "faults are armed once");
  auto mine = std::make_unique<Plan>();
  mine->rank = rank;
  for (const Fault& fault : faults) {
    if (fault.rank == Fault::kEveryRank || fault.rank == rank)
      mine->faults.push_back(std::make_unique<ArmedFault>(fault));
  }
  if (mine->faults.empty()) return;
  plan.store(mine.release(), std::memory_order_release);
  detail::faults_armed.store(true, std::memory_order_release);
}

std::vector<std::string> faults_not_reached() {
  std::vector<std::string> texts;
  const Plan* const armed = plan.load(std::memory_order_acquire);
  if (armed == nullptr) return texts;
  for (const auto& candidate : armed->faults) {
    if (!candidate->happened) texts.push_back(text_of(candidate->fault));
  }
  return texts;
}

int take_injected_errno() { return std::exchange(injected_errno, 0); }

void flip_bit(std::span<std::byte> bytes) {
  TRIREME_ASSERT(!bytes.empty(), "nothing to damage");
  bytes[bytes.size() / 2] ^= std::byte{1};
}

void flip_bit(const std::filesystem::path& file) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  const auto middle = static_cast<std::streamoff>(std::filesystem::file_size(file) / 2);
  char byte = 0;
  stream.seekg(middle).get(byte);
  stream.seekp(middle).put(static_cast<char>(byte ^ 1)).flush();
  if (!stream) throw CheckpointError("cannot damage " + file.string() + " as --inject asks");
}

}  // namespace trireme
