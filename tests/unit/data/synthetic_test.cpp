// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <set>

#include "support.hpp"

namespace trireme {
namespace {

using test::make;
using testing::HasSubstr;

using Shape = std::vector<std::int64_t>;
using Changes = std::vector<std::pair<std::string, OptionValue>>;

TEST(Synthetic, IsAFunctionOfSeedSplitAndIndex) {
  const auto data = make(synthetic(), {.seed = 1});
  EXPECT_EQ(data->size(), 1024);
  EXPECT_EQ(data->spec().input_shape, (Shape{3, 32, 32}));
  EXPECT_EQ(test::read(*data, 5).input, test::read(*make(synthetic(), {.seed = 1}), 5).input);
  EXPECT_NE(test::read(*data, 5).input, test::read(*data, 6).input);
  EXPECT_NE(test::read(*data, 5).input, test::read(*make(synthetic(), {.seed = 2}), 5).input);
  EXPECT_NE(test::read(*data, 5).input,
            test::read(*make(synthetic(), {.split = Split::kTest, .seed = 1}), 5).input);
}

TEST(Synthetic, ShapesOtherThanImagesAreFloats) {
  const auto data = make(synthetic(), {}, {{"shape", Shape{5, 7}}});
  EXPECT_EQ(data->spec().input_dtype, DType::kF32);
  std::set<float> seen;
  for (const float value : test::as<float>(test::read(*data, 0).input)) {
    EXPECT_LE(std::abs(value), 1.0F);
    seen.insert(value);
  }
  EXPECT_GT(seen.size(), 25U);
}

// The mean of each class's training samples; of the test samples, all are nearest to their own
// class's.
TEST(Synthetic, AClassIsLearnedInTrainingAndFoundAgainInTheTest) {
  const Changes changes = {
      {"samples", std::int64_t{60}}, {"classes", std::int64_t{4}}, {"shape", Shape{40}}};
  const auto train = make(synthetic(), {}, changes);
  std::vector<std::vector<double>> means(4, std::vector<double>(40));
  for (std::int64_t i = 0; i < 60; ++i) {
    const test::Sample sample = test::read(*train, i);
    const auto values = test::as<float>(sample.input);
    for (std::size_t k = 0; k < 40; ++k) {
      means[static_cast<std::size_t>(sample.label())][k] += values[k] / 15.0;
    }
  }
  const auto held_out = make(synthetic(), {.split = Split::kTest}, changes);
  for (std::int64_t i = 0; i < 60; ++i) {
    const test::Sample sample = test::read(*held_out, i);
    const auto values = test::as<float>(sample.input);
    std::vector<double> distances;
    for (const auto& mean : means) {
      double sum = 0;
      for (std::size_t k = 0; k < 40; ++k) {
        sum += (values[k] - mean[k]) * (values[k] - mean[k]);
      }
      distances.push_back(sum);
    }
    EXPECT_EQ(std::ranges::min_element(distances) - distances.begin(), sample.label());
  }
}

TEST(Synthetic, SamplesOfAbsurdSizeAreErrors) {
  for (const Shape& shape : {Shape{1000000, 1000000}, Shape(20, 1000000)}) {
    EXPECT_THAT(test::message_of<DataError>([&] {
                  make(synthetic(), {}, {{"shape", shape}});
                }),
                HasSubstr("data.shape"));
  }
}

TEST(DatasetKinds, HaveDifferentNamesAndSayWhatTheyAre) {
  std::set<std::string> names;
  for (const DatasetKind& kind : dataset_kinds()) {
    names.insert(kind.name);
    EXPECT_FALSE(kind.help.empty());
  }
  EXPECT_EQ(names, (std::set<std::string>{"cifar10", "cifar100", "idx", "image_folder", "synthetic",
                                          "text"}));
}

}  // namespace
}  // namespace trireme
