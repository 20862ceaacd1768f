// SPDX-License-Identifier: Apache-2.0
// What each command does, once the ranks are up.
#pragma once

#include <exception>

#include "app/command_line.hpp"
#include "app/launch.hpp"
#include "trireme/registry.hpp"

namespace trireme {

// Collective. Returns the exit code. SharedError for what all ranks agree on; what concerns this
// rank alone while it trains ends the job (Launch::fail) with all objects alive that others may
// still touch; anything else is thrown.
int run_command(const CommandLine& command_line, const Registry& registry, Launch& launch);

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
