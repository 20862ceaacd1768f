// SPDX-License-Identifier: Apache-2.0
// Half-width numbers against their definition: the nearest representable value, ties to even.
#include "comm/wire_format.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace trireme {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> round_trip(WireType type, std::vector<float> values, WireCounts& counts) {
  std::vector<std::uint16_t> wire(values.size());
  encode(type, values.data(), nullptr, values.size(), wire.data(), &counts);
  decode(type, wire.data(), wire.size(), values.data());
  return values;
}

// All finite values of a type, ascending, straight from its bits; computed in double.
std::vector<double> all_values(WireType type) {
  const int exponent_bits = type == WireType::kF16 ? 5 : 8;
  const int mantissa_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  std::vector<double> values;
  for (int bits = 0; (bits >> mantissa_bits) < (1 << exponent_bits) - 1; ++bits) {
    const int exponent = bits >> mantissa_bits, mantissa = bits & ((1 << mantissa_bits) - 1);
    values.push_back(exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                   : std::ldexp((1 << mantissa_bits) + mantissa,
                                                exponent - bias - mantissa_bits));
  }
  return values;
}

double nearest(const std::vector<double>& values, double x) {
  const double magnitude = std::min(std::fabs(x), values.back());
  const auto above = std::lower_bound(values.begin(), values.end(), magnitude);
  if (*above == magnitude) return std::copysign(magnitude, x);
  const auto below = above - 1;
  const double to_above = *above - magnitude, to_below = magnitude - *below;
  const bool below_is_even = (below - values.begin()) % 2 == 0;
  const bool down = to_below < to_above || (to_below == to_above && below_is_even);
  return std::copysign(down ? *below : *above, x);
}

class WireFormat : public ::testing::TestWithParam<WireType> {};
INSTANTIATE_TEST_SUITE_P(Types, WireFormat, ::testing::Values(WireType::kF16, WireType::kBF16),
                         [](const auto& type) {
                           return type.param == WireType::kF16 ? "F16" : "BF16";
                         });

TEST_P(WireFormat, EveryValueOfTheTypeSurvives) {
  std::vector<float> values;
  for (const double value : all_values(GetParam())) {
    values.push_back(static_cast<float>(value));
    values.push_back(static_cast<float>(-value));
  }
  WireCounts counts;
  const std::vector<float> back = round_trip(GetParam(), values, counts);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(back[i]), std::bit_cast<std::uint32_t>(values[i])) << i;
  }
  EXPECT_EQ(counts.saturated + counts.underflowed, 0u);
}

TEST_P(WireFormat, OthersBecomeTheNearestOne) {
  const std::vector<double> all = all_values(GetParam());
  std::mt19937 random(7);
  std::vector<float> values;
  for (std::size_t i = 0; i + 1 < all.size(); i += 3) {  // ties, and their neighbours
    const auto middle = static_cast<float>((all[i] + all[i + 1]) / 2);
    for (const float x : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, kInfinity)})
      values.push_back(i % 2 == 0 ? x : -x);
  }
  for (int i = 0; i < 100'003; ++i) {  // any bits
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isfinite(x)) values.push_back(x);
  }
  WireCounts counts;
  const std::vector<float> back = round_trip(GetParam(), values, counts);
  std::uint64_t saturated = 0, underflowed = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(back[i], nearest(all, values[i])) << "of " << values[i];
    saturated += std::fabs(values[i]) > all.back() ? 1 : 0;
    underflowed += back[i] == 0 && values[i] != 0 ? 1 : 0;
  }
  EXPECT_EQ(counts.saturated, saturated);
  EXPECT_EQ(counts.underflowed, underflowed);
  EXPECT_GT(counts.underflowed, 0u);
}

TEST_P(WireFormat, WhatIsNotFiniteIsSeen) {
  WireCounts counts;
  std::vector<float> values(9, 1.0f);  // beyond a vector register's eight
  for (const std::size_t i : {0u, 8u}) {
    values.assign(9, 1.0f);
    values[i] = kInfinity;
    EXPECT_EQ(round_trip(GetParam(), values, counts)[i], kInfinity);
    values[i] = std::nanf("");
    EXPECT_TRUE(std::isnan(round_trip(GetParam(), values, counts)[i]));
    values[i] = -std::bit_cast<float>(0x7f800001u);  // a NaN whose upper bits are an infinity's
    EXPECT_TRUE(std::isnan(round_trip(GetParam(), values, counts)[i]));
  }
  EXPECT_EQ(counts.saturated, 0u);
}

TEST_P(WireFormat, TheResidualIsWhatRoundingTookOff) {
  std::vector<float> values(1000), residual(values.size());
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  for (float& x : residual) x = 0.001f * normal(random);
  const std::vector<float> before = residual;
  for (float& x : values) x = normal(random);
  std::vector<std::uint16_t> wire(values.size());
  WireCounts counts;
  encode(GetParam(), values.data(), residual.data(), values.size(), wire.data(), &counts);
  std::vector<float> sent(values.size());
  decode(GetParam(), wire.data(), wire.size(), sent.data());
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(sent[i] + residual[i], values[i] + before[i]);
}

}  // namespace
}  // namespace trireme
