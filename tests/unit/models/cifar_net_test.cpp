// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <cmath>

#include "support.hpp"

namespace trireme::test {
namespace {

TEST(CifarNet, TrainsAsManyParametersAsTheRecipeSays) {
  const auto model = make_model("cifar_net", images(3, 32, 10));
  EXPECT_EQ(num_trained(*model), 1971352);
  EXPECT_EQ(model->num_init_samples(), 5000);
  const auto parameters = model->named_parameters();
  EXPECT_FALSE(parameters["whiten.weight"].requires_grad());
  EXPECT_TRUE(parameters["whiten.bias"].requires_grad());
  EXPECT_FALSE(parameters["groups.2.norm2.weight"].requires_grad());
  EXPECT_TRUE(parameters["groups.2.norm2.bias"].requires_grad());
  EXPECT_EQ(model->forward(torch::randn({2, 3, 32, 32})).sizes(), at::IntArrayRef({2, 10}));
}

TEST(CifarNet, StartsAsTheRecipeSays) {
  const auto model = make_model("cifar_net", images(3, 32, 10));
  const auto parameters = model->named_parameters();
  EXPECT_NEAR(parameters["head.weight"].std().item<double>(), 1, 1e-6);
  EXPECT_TRUE(parameters["groups.0.norm1.weight"].equal(torch::ones({64})));
  const torch::Tensor conv = parameters["groups.0.conv1.weight"];  // 24 -> 64
  const torch::Tensor identity = torch::zeros({24, 24, 3, 3});
  for (std::int64_t i = 0; i < 24; ++i) identity[i][i][1][1] = 1;
  EXPECT_TRUE(conv.narrow(0, 0, 24).equal(identity));
  EXPECT_GT(conv.narrow(0, 24, 40).abs().sum().item<double>(), 0);
}

// The second moments of the outputs over all patches of the samples: what whitening is for.
TEST(CifarNet, WhitensItsSamples) {
  const auto model = make_model("cifar_net", images(3, 32, 10), {{"width", std::int64_t{8}}});
  model->to(torch::kDouble);
  torch::manual_seed(1);
  // Neighbouring pixels and channels correlate, as in photographs; more samples than one piece.
  torch::Tensor samples = torch::randn({620, 3, 32, 32}, torch::kDouble).cumsum(2).cumsum(1) * 0.1;
  model->init_from_samples(samples);

  const auto parameters = model->named_parameters();
  const torch::Tensor weight = parameters["whiten.weight"].detach();
  EXPECT_TRUE(weight.narrow(0, 12, 12).equal(-weight.narrow(0, 0, 12)));
  const torch::Tensor patches =
      samples.unfold(2, 2, 1).unfold(3, 2, 1).permute({0, 2, 3, 1, 4, 5}).reshape({-1, 12});
  const torch::Tensor moments = torch::matmul(patches.t(), patches) / patches.size(0);
  const torch::Tensor filters = weight.narrow(0, 0, 12).reshape({12, 12});
  // With S = V L V', filters F = (L + e)^-1/2 V' give F (S + e) F' = 1 and a diagonal F S F'.
  const torch::Tensor shifted = moments + 5e-4 * torch::eye(12, torch::kDouble);
  const torch::Tensor unit = torch::matmul(torch::matmul(filters, shifted), filters.t());
  EXPECT_LT((unit - torch::eye(12, torch::kDouble)).abs().max().item<double>(), 1e-9);
  const torch::Tensor diagonal = torch::matmul(torch::matmul(filters, moments), filters.t());
  EXPECT_LT((diagonal - diagonal.diag().diag()).abs().max().item<double>(), 1e-9);
}

TEST(CifarNet, WhitenSamplesOfZeroAsksForNone) {
  const auto model =
      make_model("cifar_net", images(3, 32, 10), {{"whiten_samples", std::int64_t{0}}});
  EXPECT_EQ(model->num_init_samples(), 0);
}

}  // namespace
}  // namespace trireme::test
