// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process: collective code runs in plain unit tests, under the sanitizers,
// and bitwise as under MPI.
#pragma once

#include <chrono>
#include <functional>

#include "trireme/communicator.hpp"

namespace trireme {

struct ThreadsOptions {
  // Consecutive ranks that split_by_node() puts on one node; 0: all of them.
  int ranks_per_node = 0;
  // Of every communicator at first; a test that hangs should fail instead.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
};

// Calls `body` on `ranks` threads at once, each with its own communicator, and returns when all
// have returned. Where one rank throws, operations that the others wait for, or post later, throw
// CommError, and the first error is rethrown here once all threads have ended.
// Ranks that call different collectives, or the same with different arguments, get a CommError
// that names both.
void run_as_threads(int ranks, const std::function<void(Communicator&)>& body,
                    const ThreadsOptions& options = {});

}  // namespace trireme
