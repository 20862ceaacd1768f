// SPDX-License-Identifier: Apache-2.0
#include "optim/norm.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <limits>

#include "trireme/error.hpp"

namespace trireme {
namespace {

double sum_of_squares(const at::Tensor& tensor) {
  SquaredNorm norm;
  add_squares(tensor, norm);
  EXPECT_TRUE(norm.is_finite);
  return norm.sum.value();
}

TEST(SquaredNorm, CountsEveryElementOfAnyLength) {
  for (const std::int64_t n : {0, 1, 7, 8, 9, 255, 256, 257, 4099}) {
    const double expected = 9.0 * static_cast<double>(n);
    EXPECT_EQ(sum_of_squares(at::full({n}, -3, at::kFloat)), expected);
    EXPECT_EQ(sum_of_squares(at::full({n}, -3, at::kDouble)), expected);
  }
}

TEST(SquaredNorm, AddsFloatsInDouble) {
  // The square does not fit float32, nor the sum its precision.
  EXPECT_NEAR(sum_of_squares(at::full({3}, 1e30F, at::kFloat)), 3e60, 1e54);
  const at::Tensor values = at::full({16 << 20}, 1, at::kFloat);
  values.narrow(0, 0, 1).fill_(1e-3);
  EXPECT_NEAR(sum_of_squares(values), (16 << 20) - 1 + 1e-6, 1e-8);
}

TEST(SquaredNorm, DoesNotDependOnCutsBetweenBlocks) {
  const at::Tensor values = at::arange(5000, at::kDouble).sin_();
  const double whole = sum_of_squares(values);
  for (std::int64_t cut = kNormBlock; cut < values.numel(); cut += kNormBlock) {
    SquaredNorm second, first;
    add_squares(values.slice(0, cut), second);
    add_squares(values.slice(0, 0, cut), first);
    for (std::size_t i = 0; i < first.sum.limbs().size(); ++i)
      first.sum.limbs()[i] += second.sum.limbs()[i];
    EXPECT_EQ(first.sum.value(), whole) << cut;
  }
}

TEST(SquaredNorm, SeesWhatIsNotFinite) {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1e200}) {
    const at::Tensor values = at::full({1000}, 1, at::kDouble);
    values[700] = bad;
    SquaredNorm norm;
    add_squares(values, norm);
    EXPECT_FALSE(norm.is_finite) << bad;
  }
}

TEST(SquaredNorm, WantsAFlatPiece) {
  SquaredNorm norm;
  EXPECT_THROW(add_squares(at::full({4, 4}, 1, at::kFloat).t().slice(1, 0, 2), norm),
               InternalError);
  EXPECT_THROW(add_squares(at::full({4}, 1, at::kLong), norm), InternalError);
}

}  // namespace
}  // namespace trireme
