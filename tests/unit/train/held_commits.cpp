// SPDX-License-Identifier: Apache-2.0
#include "unit/train/held_commits.hpp"

#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cerrno>
#include <condition_variable>
#include <mutex>

namespace {

struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool held = false;
  int error = 0;
};
Gate gate;  // the C library's calls have no other way to reach it

}  // namespace

extern "C" int mkdir(const char* path, mode_t mode) {
  static auto* const call =
      reinterpret_cast<int (*)(const char*, mode_t)>(dlsym(RTLD_NEXT, "mkdir"));
  std::unique_lock lock(gate.mutex);
  gate.changed.wait(lock, [] { return !gate.held; });
  if (gate.error == 0) return call(path, mode);
  errno = gate.error;
  return -1;
}

namespace trireme::test {

HeldCommits::HeldCommits() {
  const std::lock_guard lock(gate.mutex);
  gate.held = true;
}

HeldCommits::~HeldCommits() { release(); }

void HeldCommits::release(int error) {
  const std::lock_guard lock(gate.mutex);
  gate.held = false;
  gate.error = error;
  gate.changed.notify_all();
}

}  // namespace trireme::test
