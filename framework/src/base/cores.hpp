// SPDX-License-Identifier: Apache-2.0
// The processor cores that processes may run on.
#pragma once

#include <span>
#include <string>

namespace trireme {

// How many this process may run on, at least 1. EnvironmentError where the system does not tell.
int available_cores();

// Those of this process as "0,1,5"; empty where the system does not tell.
std::string core_list();

// How many different cores such lists name: of "0,1" and "1,2" it is 3.
int count_cores(std::span<const std::string> lists);

}  // namespace trireme
