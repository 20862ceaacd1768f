// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/command_line.hpp"
#include "app/launch.hpp"
#include "trireme/registry.hpp"

namespace trireme {

// Collective: `trainer eval`. Returns the exit code; SharedError.
int evaluate_checkpoint(const CommandLine& line, const Registry& registry, Launch& launch);

}  // namespace trireme
