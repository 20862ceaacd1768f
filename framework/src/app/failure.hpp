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

}  // namespace trireme
