// SPDX-License-Identifier: Apache-2.0
// What `trainer doctor` finds out about the file system that a run is to live on.
#pragma once

#include <filesystem>
#include <vector>

#include "app/findings.hpp"
#include "trireme/communicator.hpp"

namespace trireme {

// Collective. Writes, flushes, renames and locks in `directory`, or in the nearest folder above it
// that exists, on rank 0, and looks from every rank whether it sees the file. Leaves nothing
// behind.
std::vector<Finding> check_run_directory(Communicator& world,
                                         const std::filesystem::path& directory);

}  // namespace trireme
