// SPDX-License-Identifier: Apache-2.0
#include "train/replica.hpp"

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cmath>

#include "app/declared.hpp"
#include "support/training.hpp"
#include "trireme/model.hpp"

namespace trireme::test {
namespace {

const DatasetSpec kImages{.input_shape = {3, 8, 8}, .target_shape = {}, .num_classes = 4};

Config config_with(const std::string& model, const std::string& more = "") {
  return config_of("model: {" + model + R"(}
data: {name: synthetic, shape: [3, 8, 8], classes: 4}
optimizer: {name: sgd, lr: 0.1)" +
                   more + R"(}
train: {epochs: 1, global_batch: 8}
)");
}

Replica replica_of(const Config& config) {
  const Registry registry = all_parts();
  return make_replica(config, model_entry(registry, config.model.name), kImages);
}

const at::Tensor& weight(const Replica& replica) {  // of the first layer: 256 x 192
  const auto found = std::find_if(replica.trained.begin(), replica.trained.end(),
                                  [](const NamedTensor& p) { return p.tensor.dim() == 2; });
  return found->tensor;
}

double deviation(const Replica& replica) { return weight(replica).detach().std().item<double>(); }

TEST(Replica, StartsFromTheNamedDistribution) {
  const std::string mlp = "name: mlp, hidden: [256]";
  const double fan_in = 192, fan_out = 256;
  EXPECT_NEAR(deviation(replica_of(config_with(mlp))), 1 / std::sqrt(3 * fan_in), 5e-4)
      << "torch's own";
  EXPECT_NEAR(deviation(replica_of(config_with(mlp + ", init: xavier_uniform"))),
              std::sqrt(2 / (fan_in + fan_out)), 5e-4);
  EXPECT_NEAR(deviation(replica_of(config_with(mlp + ", init: kaiming_normal"))),
              std::sqrt(2 / fan_out), 1e-3);
  EXPECT_NEAR(deviation(replica_of(config_with(mlp + ", init: normal, init_std: 0.3"))), 0.3, 3e-3);
}

TEST(Replica, StartsFromTheSeedAlone) {
  Config config = config_with("name: mlp, hidden: [256]");
  const at::Tensor first = weight(replica_of(config)).detach().clone();
  EXPECT_TRUE(first.equal(weight(replica_of(config)).detach()));
  config.run.seed = 1;
  EXPECT_FALSE(first.equal(weight(replica_of(config)).detach()));
}

TEST(Replica, HasThePrecisionAndMemoryFormatOfTheConfiguration) {
  Config config = config_with("name: convnet, width: 4, channels_last: true");
  config.train.precision = "fp64";
  int convolutions = 0;
  for (const NamedTensor& p : replica_of(config).trained) {
    EXPECT_EQ(p.tensor.scalar_type(), at::kDouble);
    if (p.tensor.dim() == 4 && p.tensor.size(1) > 1) {
      EXPECT_TRUE(p.tensor.is_contiguous(at::MemoryFormat::ChannelsLast)) << p.name;
      ++convolutions;
    }
  }
  EXPECT_GT(convolutions, 0);
  for (const NamedTensor& b : replica_of(config).buffers) {
    const bool whole = b.name.ends_with("num_batches_tracked");
    EXPECT_EQ(b.tensor.scalar_type(), whole ? at::kLong : at::kDouble) << b.name;
  }
}

TEST(Replica, LeavesFrozenParametersOut) {
  const Replica replica = replica_of(
      config_with("name: mlp, hidden: [256]", ", groups: [{match: \"*bias\", frozen: true}]"));
  EXPECT_EQ(replica.frozen.size(), 2u);
  for (const NamedTensor& p : replica.frozen) EXPECT_FALSE(p.tensor.requires_grad());
  for (const NamedTensor& p : replica.trained) EXPECT_TRUE(p.name.ends_with("weight")) << p.name;
  EXPECT_EQ(replica.num_trained(), 192 * 256 + 256 * 4);
}

TEST(Replica, RefusesToTrainNothing) {
  EXPECT_THROW(
      replica_of(config_with("name: mlp, hidden: [8]", ", groups: [{match: \"*\", frozen: true}]")),
      ConfigError);
}

// A head that uses the embedding's weight, as language models do: registered under two names, one
// tensor.
struct Tied : Model {
  Tied() {
    const torch::Tensor shared = register_parameter("embedding", torch::randn({4, 192}));
    register_parameter("head", shared);
  }
  torch::Tensor forward(const torch::Tensor& input) override {
    const torch::Tensor weight = named_parameters()["embedding"];
    const torch::Tensor hidden = input.flatten(1).matmul(weight.t());
    return hidden.matmul(weight).matmul(weight.t());
  }
};

TEST(Replica, TakesATiedParameterOnce) {
  const ModelEntry entry{
      "tied", "", {}, [](const Options&, const DatasetSpec&) { return std::make_shared<Tied>(); }};
  const Replica replica = make_replica(config_with("name: mlp"), entry, kImages);
  ASSERT_EQ(replica.trained.size(), 1u);
  EXPECT_EQ(replica.trained[0].name, "embedding");
}

TEST(Replica, TrainsATiedParameterAsOneRankWould) {
  Registry registry = all_parts();
  registry.add(
      ModelEntry{"tied", "Two uses of one tensor.", {}, [](const Options&, const DatasetSpec&) {
                   return std::make_shared<Tied>();
                 }});
  const Config config = config_of(R"(
model: {name: tied}
data: {name: synthetic, samples: 40, shape: [3, 8, 8], classes: 4}
optimizer: {name: sgd, lr: 0.0001}
train: {max_steps: 8, global_batch: 8, precision: fp64}
)",
                                  registry);
  const TrainingRun alone = train(config, {}, registry);
  EXPECT_NE(alone.losses.front(), alone.losses.back());
  EXPECT_LE(largest_difference(alone.losses, train(config, {.ranks = 3}, registry).losses), 1e-9);
}

}  // namespace
}  // namespace trireme::test
