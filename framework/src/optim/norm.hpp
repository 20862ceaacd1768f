// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme {

// Sum of the squares of all elements, in double: a shard's share of the squared gradient norm.
// Bitwise reproducible: the order of additions depends on the number of elements alone (and on the
// GPU's model). Contiguous, float32 or float64; waits for the device.
double sum_of_squares(const at::Tensor& tensor);

}  // namespace trireme
