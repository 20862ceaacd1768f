// SPDX-License-Identifier: Apache-2.0
#include "unit/checkpoint/failing_calls.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace {

struct Plan {
  std::atomic<int> left{0};  // calls until the one that fails; 0 and below: not armed, or passed
  std::atomic<int> error{0};
  std::atomic<bool> for_good{false};
  std::atomic<bool> armed{false};
};
Plan plan;  // the C library's calls have no other way to reach it

bool fails() {
  if (!plan.armed) return false;
  const int left = --plan.left;
  if (left > 0 || (left < 0 && !plan.for_good)) return false;
  errno = plan.error;
  return true;
}

template <typename Function>
Function* original(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* data, size_t size) {
  static auto* const call = original<ssize_t(int, const void*, size_t)>("write");
  return fails() ? -1 : call(fd, data, size);
}

int fsync(int fd) {
  static auto* const call = original<int(int)>("fsync");
  return fails() ? -1 : call(fd);
}

int close(int fd) {
  static auto* const call = original<int(int)>("close");
  // Nothing can be lost with a file that was only read.
  const int flags = fcntl(fd, F_GETFL);
  const bool failing = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && fails();
  const int error = errno;
  const int result = call(fd);  // as on a network: gone, and an error
  if (failing) errno = error;
  return failing ? -1 : result;
}

int rename(const char* from, const char* to) {
  static auto* const call = original<int(const char*, const char*)>("rename");
  return fails() ? -1 : call(from, to);
}

int mkdir(const char* path, mode_t mode) {
  static auto* const call = original<int(const char*, mode_t)>("mkdir");
  return fails() ? -1 : call(path, mode);
}

int symlink(const char* target, const char* path) {
  static auto* const call = original<int(const char*, const char*)>("symlink");
  return fails() ? -1 : call(target, path);
}

}  // extern "C"

namespace trireme::test {

FailingCalls::FailingCalls(int nth, int error, bool for_good) {
  plan.error = error;
  plan.for_good = for_good;
  plan.left = nth;
  plan.armed = true;
}

FailingCalls::~FailingCalls() { plan.armed = false; }

bool FailingCalls::reached() const { return plan.left <= 0; }

}  // namespace trireme::test
