// SPDX-License-Identifier: Apache-2.0
// The command line's side of base/inject.hpp.
#pragma once

#include <string>
#include <vector>

#include "app/launch.hpp"

namespace CLI {
class App;
}

namespace trireme {

// --enable-fault-injection and --inject, which is refused without it.
void add_fault_options(CLI::App& command, std::vector<std::string>& faults);

// Collective. Arms what --inject asked for, and says so: no run has faults in secret. SharedError
// where there is no such rank.
void arm_faults(const std::vector<std::string>& faults, Launch& launch);

// A warning for each fault that this rank never came to.
void warn_of_faults_not_reached();

}  // namespace trireme
