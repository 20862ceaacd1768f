// SPDX-License-Identifier: Apache-2.0
// Requests from outside to stop: SIGINT, SIGTERM, SIGUSR1. The handler only sets a flag; the
// trainer agrees on it.
#pragma once

namespace trireme {

// From its construction to its destruction these signals ask for a stop instead of ending the
// process; a second SIGINT ends it at once. One at a time a process.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The signal that came, or 0. Any thread.
  int received() const;
};

}  // namespace trireme
