// SPDX-License-Identifier: Apache-2.0
#include "base/stop.hpp"

#include <atomic>
#include <csignal>

namespace trireme {
namespace {

// A signal handler can reach nothing but static storage.
std::atomic<int> received_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void remember(int signal) {
  if (signal == SIGINT && received_signal.load() == SIGINT) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  received_signal.store(signal);
}

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGUSR1};

}  // namespace

StopSignals::StopSignals() {
  received_signal.store(0);
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  for (const int signal : kSignals) sigaction(signal, &action, nullptr);
}

StopSignals::~StopSignals() {
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
}

int StopSignals::received() const { return received_signal.load(); }

}  // namespace trireme
