// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme {

const char* version();  // of Trireme: "0.1.0"

}  // namespace trireme
