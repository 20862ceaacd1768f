// SPDX-License-Identifier: Apache-2.0
// What each command does, once the ranks are up.
#pragma once

#include "app/command_line.hpp"
#include "app/launch.hpp"
#include "trireme/registry.hpp"

namespace trireme {

// Collective. Returns the exit code. SharedError for what all ranks agree on; what concerns this rank alone ends the job
// (Launch::fail) while all objects that others may still touch are alive.
int run_command(const CommandLine& command_line, const Registry& registry, Launch& launch);

// Prints "trireme: error: ..." to stderr; with launch, and rank and host where there are several ranks.
void print_error(const std::string& message, Launch* launch);

}  // namespace trireme
