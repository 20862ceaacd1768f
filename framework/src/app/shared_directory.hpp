// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "trireme/communicator.hpp"

namespace trireme {

// Collective. Rank 0 has locked the run directory `path`. Throws SharedError (kCheckpoint) that
// names the hosts where it is not the same directory: a run that goes on with rank 0 there would
// not find it. A file system may take some seconds to show it everywhere.
void require_shared_directory(const std::filesystem::path& path, Communicator& world);

}  // namespace trireme
