// SPDX-License-Identifier: Apache-2.0
// How an error leaves the program.
#pragma once

#include <exception>
#include <string>

#include "app/launch.hpp"
#include "trireme/error.hpp"

namespace trireme {

// What an exception means for the user: its text (without torch's stack trace) and the exit code.
struct Failure {
  std::string message;
  ExitCode code = ExitCode::kInternal;
};
Failure failure_of(const std::exception& error);

// Prints "trireme: error: ..." to stderr; with launch, and rank and host where there are several
// ranks.
void print_error(const std::string& message, Launch* launch);

// The last words of a rank that fails alone, before it ends all (Launch::fail). What several ranks
// have to say is said once a node: the first error, and of others those that are no consequence of
// it. A wait that came to nothing is told with what the watchdog knows of those who did not come,
// by rank 0 if it is there within a second. Returns all the words, also where others have said
// them.
std::string tell_failure(const Failure& failure, Launch& launch);

}  // namespace trireme
