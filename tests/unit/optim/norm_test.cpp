// SPDX-License-Identifier: Apache-2.0
#include "optim/norm.hpp"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "trireme/error.hpp"

namespace trireme {
namespace {

TEST(SumOfSquares, CountsEveryElementOfAnyLength) {
  for (const std::int64_t n : {0, 1, 7, 8, 9, 4099}) {
    const double expected = 9.0 * static_cast<double>(n);
    EXPECT_EQ(sum_of_squares(at::full({n}, -3, at::kFloat)), expected);
    EXPECT_EQ(sum_of_squares(at::full({n}, -3, at::kDouble)), expected);
  }
}

TEST(SumOfSquares, AddsFloatsInDouble) {
  // The square does not fit float32, nor the sum its precision.
  EXPECT_NEAR(sum_of_squares(at::full({3}, 1e30F, at::kFloat)), 3e60, 1e54);
  const at::Tensor values = at::full({16 << 20}, 1, at::kFloat);
  values.narrow(0, 0, 1).fill_(1e-3);
  EXPECT_NEAR(sum_of_squares(values), (16 << 20) - 1 + 1e-6, 1e-8);
}

TEST(SumOfSquares, WantsAFlatPiece) {
  EXPECT_THROW(sum_of_squares(at::full({4, 4}, 1, at::kFloat).t().slice(1, 0, 2)), InternalError);
  EXPECT_THROW(sum_of_squares(at::full({4}, 1, at::kLong)), InternalError);
}

}  // namespace
}  // namespace trireme
