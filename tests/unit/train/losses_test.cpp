// SPDX-License-Identifier: Apache-2.0
#include "train/losses.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

LossFunction loss(const std::string& name, double label_smoothing = 0) {
  Registry registry;
  add_losses(registry);
  const auto entry = std::find_if(registry.losses().begin(), registry.losses().end(),
                                  [&](const LossEntry& e) { return e.name == name; });
  Options options = default_options(entry->options);
  if (name == "cross_entropy") options.set("label_smoothing", label_smoothing);
  return entry->make(options);
}

MetricEntry metric(const std::string& name) {
  Registry registry;
  add_metrics(registry);
  return *std::find_if(registry.metrics().begin(), registry.metrics().end(),
                       [&](const MetricEntry& e) { return e.name == name; });
}

TEST(Losses, CrossEntropyIsTheSumOverTerms) {
  const at::Tensor output = torch::tensor({{0.0, std::log(3.0)}, {0.0, 0.0}}, torch::kDouble);
  const at::Tensor target = torch::tensor({1, 0}, torch::kLong);
  EXPECT_NEAR(loss("cross_entropy")(output, target).item<double>(), -std::log(0.75) - std::log(0.5),
              1e-15);
}

TEST(Losses, LabelSmoothingSpreadsItsShareOverAllClasses) {
  const at::Tensor output = torch::tensor({{0.0, std::log(3.0)}}, torch::kDouble);
  const at::Tensor target = torch::tensor({1}, torch::kLong);
  const double expected = -0.9 * std::log(0.75) - 0.1 * std::log(0.25);
  EXPECT_NEAR(loss("cross_entropy", 0.2)(output, target).item<double>(), expected, 1e-15);
}

TEST(Losses, CrossEntropyTakesOneTargetAToken) {
  const at::Tensor output = torch::randn({6, 5}, torch::kDouble);
  const at::Tensor target = torch::tensor({{0, 1, 2}, {3, 4, 0}}, torch::kLong);
  const auto cross_entropy = loss("cross_entropy");
  EXPECT_EQ(cross_entropy(output, target).item<double>(),
            cross_entropy(output, target.flatten()).item<double>());
}

TEST(Losses, MseIsTheSumOfSquaresWhateverTheShapes) {
  const at::Tensor output = torch::tensor({{1.0}, {2.0}}, torch::kDouble);
  const at::Tensor target = torch::tensor({3.0F, -1.0F});
  EXPECT_EQ(loss("mse")(output, target).item<double>(), 4 + 9);
}

TEST(Losses, AnOutputThatDoesNotFitIsTheConfigurationsError) {
  const at::Tensor classes = torch::tensor({0, 1}, torch::kLong);
  EXPECT_THROW(loss("cross_entropy")(torch::randn({3, 5}), classes), ConfigError);
  EXPECT_THROW(loss("cross_entropy")(torch::randn({2, 5}), torch::randn({2})), ConfigError);
  EXPECT_THROW(loss("mse")(torch::randn({3}), torch::randn({2})), ConfigError);
  EXPECT_THROW(loss("mse")(torch::randn({2}), classes), ConfigError);
  EXPECT_THROW(metric("accuracy").compute(torch::randn({3, 5}), classes), ConfigError);
}

TEST(Metrics, AccuracyCountsHits) {
  const at::Tensor output = torch::tensor({{0.1, 0.9}, {0.8, 0.2}, {0.5, 0.6}});
  const at::Tensor target = torch::tensor({1, 1, 1}, torch::kLong);
  EXPECT_EQ(metric("accuracy").compute(output, target).item<double>(), 2);
  EXPECT_TRUE(metric("accuracy").higher_is_better);
}

TEST(Metrics, MeanAbsoluteErrorSumsDistances) {
  const at::Tensor output = torch::tensor({{1.0F}, {2.0F}});
  const at::Tensor target = torch::tensor({3.0F, 1.5F});
  EXPECT_EQ(metric("mean_absolute_error").compute(output, target).item<double>(), 2.5);
  EXPECT_FALSE(metric("mean_absolute_error").higher_is_better);
}

}  // namespace
}  // namespace trireme
