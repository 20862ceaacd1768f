// SPDX-License-Identifier: Apache-2.0
#include "trireme/dataset.hpp"

namespace trireme {
namespace {

std::int64_t product(const std::vector<std::int64_t>& shape) {
  std::int64_t result = 1;
  for (const std::int64_t side : shape) {
    TRIREME_ASSERT(side >= 0, "sides of a shape are not negative");
    TRIREME_ASSERT(!__builtin_mul_overflow(result, side, &result), "a sample fits into memory");
  }
  return result;
}

}  // namespace

std::size_t DatasetSpec::input_bytes() const {
  return static_cast<std::size_t>(product(input_shape)) * size_of(input_dtype);
}

std::size_t DatasetSpec::target_bytes() const {
  return static_cast<std::size_t>(targets_per_sample()) * size_of(target_dtype);
}

std::int64_t DatasetSpec::targets_per_sample() const { return product(target_shape); }

}  // namespace trireme
