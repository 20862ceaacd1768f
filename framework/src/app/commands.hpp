// SPDX-License-Identifier: Apache-2.0
// What each command does, once the ranks are up.
#pragma once

#include "app/command_line.hpp"
#include "app/launch.hpp"
#include "trireme/registry.hpp"

namespace trireme {

// Collective. Returns the exit code. SharedError for what all ranks agree on; what concerns this
// rank alone while it trains ends the job (Launch::fail) with all objects alive that others may
// still touch; anything else is thrown.
int run_command(const CommandLine& command_line, const Registry& registry, Launch& launch);

}  // namespace trireme
