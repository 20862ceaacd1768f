// SPDX-License-Identifier: Apache-2.0
// The commands `trainer ckpt ...`: they look at checkpoints, and change nothing.
#pragma once

#include "app/command_line.hpp"
#include "app/launch.hpp"
#include "trireme/registry.hpp"

namespace trireme {

// Collective; rank 0 reads and speaks. Arrays are read one after the other. Returns the exit code;
// SharedError (kCheckpoint) where a checkpoint is damaged, or where two differ.
int inspect_checkpoints(const CommandLine& line, const Registry& registry, Launch& launch);

}  // namespace trireme
