// SPDX-License-Identifier: Apache-2.0
#include "base/exact_sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "trireme/error.hpp"

namespace trireme {
namespace {

double sum_of(const std::vector<double>& values) {
  ExactSum sum;
  for (const double value : values) sum.add(value);
  return sum.value();
}

TEST(ExactSum, OfOneNumberIsTheNumber) {
  for (const double value :
       {0.0, 1.0, 0.1, 1e300, 5e-324, 1e-310, 65504.0, std::numeric_limits<double>::max()}) {
    EXPECT_EQ(sum_of({value}), value);
  }
}

TEST(ExactSum, LosesNothingOfSmallNumbersBesideLargeOnes) {
  ExactSum sum;
  sum.add(1e20);
  for (int i = 0; i < 1 << 20; ++i) sum.add(0.0625);
  EXPECT_EQ(sum.value(), 1e20 + 65536);
}

TEST(ExactSum, OrderAndGroupingDoNotMatter) {
  std::mt19937_64 random(3);
  std::uniform_int_distribution<int> exponent(-60, 60);
  std::vector<double> values;
  for (int i = 0; i < 5000; ++i)
    values.push_back(std::ldexp(double(random() >> 11), exponent(random)));
  const double expected = sum_of(values);
  for (int round = 0; round < 5; ++round) {
    std::shuffle(values.begin(), values.end(), random);
    EXPECT_EQ(sum_of(values), expected);
    ExactSum first, second;  // as two ranks do
    for (std::size_t i = 0; i < values.size(); ++i) (i % 3 == 0 ? first : second).add(values[i]);
    for (std::size_t i = 0; i < first.limbs().size(); ++i) first.limbs()[i] += second.limbs()[i];
    EXPECT_EQ(first.value(), expected);
  }
  double plain = 0;
  for (const double value : values) plain += value;
  EXPECT_NEAR(plain / expected, 1, 1e-12);
}

TEST(ExactSum, RefusesWhatIsNotFiniteOrNegative) {
  ExactSum sum;
  EXPECT_THROW(sum.add(std::numeric_limits<double>::infinity()), InternalError);
  EXPECT_THROW(sum.add(std::nan("")), InternalError);
  EXPECT_THROW(sum.add(-1), InternalError);
}

}  // namespace
}  // namespace trireme
