// SPDX-License-Identifier: Apache-2.0
// Requests from outside, as signals. The handlers only set flags; the trainer asks for them at each
// step, and all ranks agree.
#pragma once

namespace trireme {

// From now to the end of the process SIGUSR1 and SIGUSR2 end nothing: they are remembered, and a
// training, if one comes, follows them. To be called once, first in main: before MPI starts and
// threads are made.
void remember_requests();

// From its construction to its destruction SIGTERM and SIGINT ask for a stop instead of ending the
// process; a second SIGINT ends it at once. One at a time a process.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Whether one of these came, or a SIGUSR1 since remember_requests(). It stays so. Any thread.
  bool stop_requested() const;
};

// Whether a SIGUSR2 came, which asks for a checkpoint, since this was asked last. Any thread.
bool take_save_request();

}  // namespace trireme
