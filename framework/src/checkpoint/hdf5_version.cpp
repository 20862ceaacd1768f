// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/hdf5_version.hpp"

#include <hdf5.h>

#include "trireme/error.hpp"

namespace trireme {

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  if (H5get_libversion(&major, &minor, &release) < 0)
    throw CheckpointError("HDF5 does not tell its version");
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

}  // namespace trireme
