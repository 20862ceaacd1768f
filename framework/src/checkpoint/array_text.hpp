// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// For messages: "f32 [64, 3, 3, 3]", of a scalar "f32 []".
std::string array_text(std::string_view dtype, const std::vector<std::int64_t>& shape);

}  // namespace trireme
