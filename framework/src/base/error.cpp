// SPDX-License-Identifier: Apache-2.0
#include "trireme/error.hpp"

namespace trireme {

void fail_assertion(const char* condition, const char* file, int line, const std::string& message) {
  throw InternalError(std::string(file) + ":" + std::to_string(line) + ": " + message + " (" +
                      condition + "); this is a defect of Trireme, please report it");
}

}  // namespace trireme
