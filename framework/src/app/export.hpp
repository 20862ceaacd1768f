// SPDX-License-Identifier: Apache-2.0
// `trainer export`: a checkpoint's weights for other programs.
#pragma once

#include "app/command_line.hpp"
#include "app/launch.hpp"
#include "trireme/registry.hpp"

namespace trireme {

// Collective; rank 0 reads, writes and speaks, one array at a time. Parameters and buffers under
// the model's own names. Returns the exit code; SharedError where that fails.
int export_weights(const CommandLine& line, const Registry& registry, Launch& launch);

}  // namespace trireme
