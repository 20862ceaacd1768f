// SPDX-License-Identifier: Apache-2.0
#include "base/stack.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <thread>

namespace trireme {
namespace {

constexpr int kMostFrames = 64;
constexpr int kSkipped = 2;  // the handler and what the kernel puts before it

// A signal handler can reach nothing but static storage.
std::array<char, 256> crash_prefix{};
std::array<void*, kMostFrames> frames{};
std::atomic<int> num_frames{-1};  // -1: not there yet
std::atomic<bool> asked{false};   // a signal that comes late finds that nobody asks any more
static_assert(std::atomic<int>::is_always_lock_free);

constexpr int kCrashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

void write_text(std::string_view text) {
  // Nothing can be done about a failure, here.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

std::string_view name_of_signal(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV (a wrong address)";
    case SIGBUS:
      return "SIGBUS (memory that is not there)";
    case SIGFPE:
      return "SIGFPE (integer arithmetic)";
    case SIGILL:
      return "SIGILL (an instruction that this processor lacks)";
    default:
      return "SIGABRT";
  }
}

extern "C" void tell_of_crash(int signal) {
  std::signal(signal, SIG_DFL);
  write_text({crash_prefix.data(), std::strlen(crash_prefix.data())});
  write_text(name_of_signal(signal));
  write_text(", the stack (c++filt reads the names):\n");
  std::array<void*, kMostFrames> stack{};
  const int count = backtrace(stack.data(), kMostFrames);
  if (count > kSkipped)
    backtrace_symbols_fd(stack.data() + kSkipped, count - kSkipped, STDERR_FILENO);
  std::raise(signal);  // delivered when this returns
}

extern "C" void take_stack(int /*signal*/) {
  if (!asked.exchange(false)) return;
  const int saved = errno;
  num_frames.store(backtrace(frames.data(), kMostFrames), std::memory_order_release);
  errno = saved;
}

int stack_signal() { return SIGRTMIN + 6; }

// A stack that has overflowed has no room for a handler.
void use_own_stack() {
  constexpr std::size_t kBytes = std::size_t{64} << 10;
  static const std::unique_ptr<std::byte[]> memory(new std::byte[kBytes]);
  stack_t stack{};
  stack.ss_sp = memory.get();
  stack.ss_size = kBytes;
  sigaltstack(&stack, nullptr);
}

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 ? std::string(text.get()) : std::string(name);
}

std::string offset_text(std::uintptr_t offset) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "+0x%zx", static_cast<std::size_t>(offset));
  return text.data();
}

std::string describe_frame(void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0) return "?";
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const std::string_view path = info.dli_fname != nullptr ? info.dli_fname : "?";
  const std::string file(path.substr(path.rfind('/') + 1));
  if (info.dli_sname == nullptr)
    return file + offset_text(at - reinterpret_cast<std::uintptr_t>(info.dli_fbase));
  return demangled(info.dli_sname) + "  (" + file + ")";
}

}  // namespace

void report_crashes(const std::string& who) {
  const std::string text = "trireme: " + who + " crashed: ";
  const std::size_t length = std::min(text.size(), crash_prefix.size() - 1);
  std::memcpy(crash_prefix.data(), text.data(), length);
  crash_prefix[length] = '\0';
  std::array<void*, 1> none{};
  backtrace(none.data(), 1);  // its first call loads a library, which a handler must not
  use_own_stack();
  struct sigaction action {};
  action.sa_handler = tell_of_crash;
  action.sa_flags = SA_ONSTACK;
  for (const int signal : kCrashes) sigaction(signal, &action, nullptr);
}

std::string stack_of(pthread_t thread) {
  struct sigaction action {};
  action.sa_handler = take_stack;
  action.sa_flags = SA_RESTART;
  if (sigaction(stack_signal(), &action, nullptr) != 0)
    return "  (no signal is free to ask for it)\n";
  std::array<void*, 1> none{};
  backtrace(none.data(), 1);
  num_frames.store(-1);
  asked.store(true);
  if (pthread_kill(thread, stack_signal()) != 0) return "  (the thread has ended)\n";
  constexpr int kTries = 200;
  for (int i = 0; i < kTries && num_frames.load(std::memory_order_acquire) < 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const int count = num_frames.load(std::memory_order_acquire);
  if (count < 0)
    return "  (it does not answer: it is in a call of the kernel that cannot be interrupted)\n";
  std::string text;
  for (int i = kSkipped; i < count; ++i)
    text += "  #" + std::to_string(i - kSkipped) + " " +
            describe_frame(frames[static_cast<std::size_t>(i)]) + "\n";
  return text;
}

}  // namespace trireme
