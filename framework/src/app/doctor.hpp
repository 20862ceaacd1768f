// SPDX-License-Identifier: Apache-2.0
// `trainer doctor`: what a training needs of machine, MPI and file system, tried for real.
#pragma once

#include <string>
#include <vector>

#include "app/command_line.hpp"
#include "app/findings.hpp"
#include "app/launch.hpp"
#include "trireme/registry.hpp"

namespace trireme {

// Collective. Prints a line a finding, or JSON: an object a line with check, verdict, text, hint
// and ranks, and a last one with the counts of ok, warn and fail. Returns the exit code:
// kCommunication where anything failed, else 0.
int doctor(const CommandLine& command_line, const Registry& registry, Launch& launch);

}  // namespace trireme
