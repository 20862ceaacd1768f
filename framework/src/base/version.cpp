// SPDX-License-Identifier: Apache-2.0
#include "base/version.hpp"

namespace trireme {

const char* version() { return TRIREME_VERSION; }

}  // namespace trireme
