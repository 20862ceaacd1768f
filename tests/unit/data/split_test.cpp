// SPDX-License-Identifier: Apache-2.0
// subset and hold_out.
#include <algorithm>
#include <numeric>

#include "data/loader.hpp"
#include "support.hpp"

namespace trireme {
namespace {

using testing::HasSubstr;

TEST(HoldOut, PartsTheSamplesWithoutOverlapOrLoss) {
  const HeldOut parts = hold_out(100, 0.25, 1);
  EXPECT_EQ(parts.validation.size(), 25U);
  EXPECT_TRUE(std::ranges::is_sorted(parts.train));
  EXPECT_TRUE(std::ranges::is_sorted(parts.validation));
  std::vector<std::int64_t> all = parts.train;
  all.insert(all.end(), parts.validation.begin(), parts.validation.end());
  std::ranges::sort(all);
  std::vector<std::int64_t> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

TEST(HoldOut, DependsOnTheSeedAlone) {
  EXPECT_EQ(hold_out(100, 0.1, 1).validation, hold_out(100, 0.1, 1).validation);
  EXPECT_NE(hold_out(100, 0.1, 1).validation, hold_out(100, 0.1, 2).validation);
}

TEST(HoldOut, KeepsBothPartsAboveNothing) {
  EXPECT_TRUE(hold_out(10, 0, 1).validation.empty());
  EXPECT_EQ(hold_out(10, 0.01, 1).validation.size(), 1U);
  EXPECT_EQ(hold_out(2, 0.9, 1).train.size(), 1U);
  EXPECT_THAT(test::message_of<DataError>([] { hold_out(1, 0.1, 1); }),
              HasSubstr("data.validation_fraction"));
}

TEST(Subset, ReadsAndDescribesTheSamplesOfTheWhole) {
  const auto part = subset(std::make_shared<test::CountingImages>(10), {7, 2});
  EXPECT_EQ(part->size(), 2);
  EXPECT_EQ(test::read(*part, 0).label(), 7);
  EXPECT_EQ(test::read(*part, 1).label(), 2);
  EXPECT_EQ(part->describe(1), "counting image 2");
  EXPECT_EQ(part->spec().num_classes, 1000);
}

TEST(Subset, OfSamplesThatAreNotThereIsADefect) {
  const auto whole = std::make_shared<test::CountingImages>(10);
  EXPECT_THROW(subset(whole, {10}), InternalError);
  EXPECT_THROW(subset(whole, {-1}), InternalError);
  EXPECT_THROW(subset(whole, {}), InternalError);
}

}  // namespace
}  // namespace trireme
