// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "trireme/communicator.hpp"

namespace trireme {

// A group of one rank, without MPI: every operation is complete when it returns.
std::unique_ptr<Communicator> make_local_communicator();

}  // namespace trireme
