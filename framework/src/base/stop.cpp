// SPDX-License-Identifier: Apache-2.0
#include "base/stop.hpp"

#include <atomic>
#include <csignal>

namespace trireme {
namespace {

// A signal handler can reach nothing but static storage.
std::atomic<bool> stop_asked{false};  // by SIGUSR1: outlives what trains
std::atomic<bool> end_asked{false};   // by SIGTERM or SIGINT
std::atomic<bool> interrupted{false};
std::atomic<bool> save_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void remember_request(int signal) {
  (signal == SIGUSR1 ? stop_asked : save_asked).store(true);
}

extern "C" void remember_end(int signal) {
  if (signal == SIGINT && interrupted.exchange(true)) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  end_asked.store(true);
}

// System calls that it interrupts go on.
void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

}  // namespace

void remember_requests() {
  stop_asked.store(false);
  save_asked.store(false);
  for (const int signal : {SIGUSR1, SIGUSR2}) handle(signal, remember_request);
}

StopSignals::StopSignals() {
  end_asked.store(false);
  interrupted.store(false);
  for (const int signal : {SIGTERM, SIGINT}) handle(signal, remember_end);
}

StopSignals::~StopSignals() {
  for (const int signal : {SIGTERM, SIGINT}) std::signal(signal, SIG_DFL);
}

bool StopSignals::stop_requested() const { return stop_asked.load() || end_asked.load(); }

bool take_save_request() { return save_asked.exchange(false); }

}  // namespace trireme
