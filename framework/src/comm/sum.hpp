// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "trireme/communicator.hpp"

namespace trireme {

// outs[o][i] = ((parts[0][i] + parts[1][i]) + parts[2][i]) + ... in `dtype` (f32, f64 or i64, which
// wraps around), for all outs in one pass over memory. Each part and out have `count` elements,
// aligned as their dtype; an out may be one of the parts, no other overlap.
void sum_in_order(DType dtype, std::span<const std::byte* const> parts,
                  std::span<std::byte* const> outs, std::size_t count);

inline void sum_in_order(DType dtype, std::span<const std::byte* const> parts, std::byte* out,
                         std::size_t count) {
  sum_in_order(dtype, parts, std::span<std::byte* const>(&out, 1), count);
}

}  // namespace trireme
