// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "base/exact_sum.hpp"

namespace trireme {

// Sums of squares are taken block by block, in double, and added without rounding: so the norm of a
// gradient does not depend on how it was cut into buckets and shards, if no cut lies in a block.
constexpr std::int64_t kNormBlock = 256;  // elements

// A piece's share of the squared gradient norm.
struct SquaredNorm {
  ExactSum sum;
  bool is_finite = true;  // false: the sum means nothing
};

// Adds the squares of `tensor`, whose blocks begin at its element 0. Contiguous, float32 or
// float64. On a GPU it is one block, summed as the device does, and this waits for it.
void add_squares(const at::Tensor& tensor, SquaredNorm& norm);

}  // namespace trireme
