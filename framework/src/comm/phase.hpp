// SPDX-License-Identifier: Apache-2.0
// What a rank was doing when its communication failed.
#pragma once

#include <string>

#include "trireme/error.hpp"

namespace trireme {

// What body returns. A CommError of it says first in which phase it was: "step 12: ...". Phases
// nest, the outermost is said first.
template <class Body>
auto in_phase(const std::string& phase, const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const CommError& error) {
    throw CommError(phase + ": " + error.what());
  }
}

}  // namespace trireme
