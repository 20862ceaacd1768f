// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <cmath>

#include "trireme/error.hpp"
#include "trireme/model.hpp"

namespace trireme {
namespace {

// The output for ones: 0 where dropped, else 1 / (1 - probability).
at::Tensor mask(const ForwardContext& context, at::IntArrayRef shape, double probability = 0.5,
                std::uint64_t layer = 0) {
  Dropout dropout(probability);
  dropout.bind(&context, layer);
  return dropout.forward(torch::ones(shape));
}

TEST(Dropout, KeepsItsShareAndTheMean) {
  const std::vector<std::int64_t> ids{0, 1, 2, 3};
  const ForwardContext context{.seed = 1, .step = 2, .sample_ids = ids};
  for (const double probability : {0.1, 0.5, 0.9}) {
    const at::Tensor out = mask(context, {4, 10000}, probability);
    const double kept = out.gt(0).sum().item<double>() / 40000;
    // Five standard deviations of the share of kept elements.
    EXPECT_NEAR(kept, 1 - probability, 5 * std::sqrt(probability * (1 - probability) / 40000));
    EXPECT_NEAR(out.max().item<double>(), 1 / (1 - probability), 1e-6);
  }
}

TEST(Dropout, DependsOnTheSampleNotOnItsBatch) {
  const std::vector<std::int64_t> together{7, 8, 9}, alone{9};
  const at::Tensor all = mask({.seed = 1, .step = 5, .sample_ids = together}, {3, 5, 7});
  const at::Tensor one = mask({.seed = 1, .step = 5, .sample_ids = alone}, {1, 5, 7});
  EXPECT_TRUE(all[2].equal(one[0]));
  EXPECT_FALSE(all[0].equal(all[1]));
}

TEST(Dropout, TakesSeveralRowsOfASampleAsOne) {
  const std::vector<std::int64_t> ids{4, 2};
  const ForwardContext context{.seed = 3, .step = 1, .sample_ids = ids};
  EXPECT_TRUE(mask(context, {6, 5}).reshape({2, 3, 5}).equal(mask(context, {2, 3, 5})));
}

TEST(Dropout, ChangesWithSeedStepAndLayer) {
  const std::vector<std::int64_t> ids{0};
  const at::Tensor first = mask({.seed = 1, .step = 1, .sample_ids = ids}, {1, 64});
  EXPECT_TRUE(first.equal(mask({.seed = 1, .step = 1, .sample_ids = ids}, {1, 64})));
  EXPECT_FALSE(first.equal(mask({.seed = 2, .step = 1, .sample_ids = ids}, {1, 64})));
  EXPECT_FALSE(first.equal(mask({.seed = 1, .step = 2, .sample_ids = ids}, {1, 64})));
  EXPECT_FALSE(first.equal(mask({.seed = 1, .step = 1, .sample_ids = ids}, {1, 64}, 0.5, 1)));
}

TEST(Dropout, DoesNotDependOnTheMemoryLayoutOrPrecision) {
  const std::vector<std::int64_t> ids{0, 1};
  const ForwardContext context{.seed = 1, .step = 1, .sample_ids = ids};
  Dropout dropout(0.5);
  dropout.bind(&context, 0);
  const at::Tensor plain = torch::ones({2, 3, 4, 5}, torch::kDouble);
  const at::Tensor expected = dropout.forward(plain);
  EXPECT_EQ(expected.scalar_type(), at::kDouble);
  EXPECT_TRUE(dropout.forward(plain.contiguous(at::MemoryFormat::ChannelsLast)).equal(expected));
  EXPECT_TRUE(dropout.forward(plain.to(at::kFloat)).to(at::kDouble).equal(expected));
}

TEST(Dropout, PassesTheGradientOfWhatItKept) {
  const std::vector<std::int64_t> ids{0};
  const ForwardContext context{.seed = 1, .step = 1, .sample_ids = ids};
  Dropout dropout(0.25);
  dropout.bind(&context, 0);
  const at::Tensor input = torch::ones({1, 50}).requires_grad_();
  const at::Tensor output = dropout.forward(input);
  output.sum().backward();
  EXPECT_TRUE(input.grad().equal(output.detach()));
}

TEST(Dropout, IsTheIdentityInEvaluationAndForProbabilityZero) {
  const at::Tensor input = torch::randn({2, 3});
  Dropout never(0);
  EXPECT_TRUE(never.forward(input).equal(input));
  Dropout evaluated(0.5);
  evaluated.eval();
  EXPECT_TRUE(evaluated.forward(input).equal(input));
}

TEST(Dropout, TrainingWithoutAContextIsADefect) {
  Dropout dropout(0.5);
  EXPECT_THROW(dropout.forward(torch::ones({2, 3})), InternalError);
  const std::vector<std::int64_t> ids{0, 1};
  const ForwardContext context{.seed = 1, .step = 1, .sample_ids = ids};
  dropout.bind(&context, 0);
  EXPECT_THROW(dropout.forward(torch::ones({3, 3})), InternalError);
  EXPECT_THROW(Dropout(1.0), InternalError);
}

}  // namespace
}  // namespace trireme
