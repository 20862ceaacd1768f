// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trireme {

std::string hdf5_version();  // of the library in use: "1.10.8"

}  // namespace trireme
