// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/array_text.hpp"

#include <cstddef>

namespace trireme {

std::string array_text(std::string_view dtype, const std::vector<std::int64_t>& shape) {
  std::string text(dtype);
  text += " [";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace trireme
