// SPDX-License-Identifier: Apache-2.0
#include "app/checkpoint_diff.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace trireme {
namespace {

template <class T>
ElementDifference compare(const std::vector<T>& a, const std::vector<T>& b, DType dtype) {
  return compare_elements(std::as_bytes(std::span(a)), std::as_bytes(std::span(b)), dtype);
}

TEST(CompareElements, CountsDifferingBitsAndMeasuresTheLargestDistance) {
  const ElementDifference difference = compare<float>({1, 2, 3, 4}, {1, 2.5F, 3, 1}, DType::kF32);
  EXPECT_EQ(difference.elements, 2u);
  EXPECT_EQ(difference.largest, 3);
  EXPECT_EQ(compare<float>({1, NAN}, {1, NAN}, DType::kF32).elements, 0u) << "the same bits";
}

TEST(CompareElements, ZerosOfBothSignsAreNotTheSameBits) {
  const ElementDifference difference = compare<double>({0.0}, {-0.0}, DType::kF64);
  EXPECT_EQ(difference.elements, 1u);
  EXPECT_EQ(difference.largest, 0);
}

TEST(CompareElements, ANanIsTheLargestDifference) {
  EXPECT_TRUE(std::isnan(compare<double>({0, 1, 5}, {NAN, 2, 1}, DType::kF64).largest));
  EXPECT_TRUE(std::isnan(compare<double>({5, 1, 0}, {1, 2, NAN}, DType::kF64).largest));
}

TEST(CompareElements, WholeNumbersDoNotOverflow) {
  using Limits = std::numeric_limits<std::int64_t>;
  EXPECT_EQ(compare<std::int64_t>({Limits::min()}, {Limits::max()}, DType::kI64).largest,
            std::pow(2.0, 64));
  EXPECT_EQ(compare<std::int64_t>({-3}, {4}, DType::kI64).largest, 7);
  EXPECT_EQ(compare<std::uint8_t>({255, 1}, {0, 1}, DType::kU8).largest, 255);
}

}  // namespace
}  // namespace trireme
