// SPDX-License-Identifier: Apache-2.0
// N ranks train what one rank trains: in float64, where an error cannot hide in rounding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <atomic>
#include <fstream>
#include <string>

#include "support/temporary_directory.hpp"
#include "support/training.hpp"
#include "trireme/error.hpp"
#include "trireme/model.hpp"

namespace trireme::test {
namespace {

using ::testing::HasSubstr;

constexpr double kTolerance = 1e-10;

// 101 samples in global batches of 10: the last one of an epoch holds one sample, fewer than ranks.
const char* const kMlp = R"(
model: {name: mlp, hidden: [16, 16], dropout: 0.2}
data: {name: synthetic, samples: 101, classes: 4, shape: [3, 6, 6], mean: [0.5, 0.5, 0.5], std: [0.25, 0.25, 0.25],
       flip: random, crop_padding: 1}
optimizer: {name: adamw, lr: 0.01, weight_decay: 0.1}
schedule: {name: cosine, warmup: 1, unit: epochs}
train: {max_steps: 20, global_batch: 10, micro_batch: 2, precision: fp64, clip_norm: 0.5}
parallel: {bucket_mb: 0.002, edge_bucket_mb: 0.001}
)";

std::string gpt(const std::filesystem::path& text) {
  return R"(
model: {name: gpt, layers: 2, width: 16, heads: 2, dropout: 0.1}
data: {name: text, path: )" +
         text.string() + R"(, context: 8}
optimizer: {name: adamw, lr: 0.01, groups: [{match: "*bias", weight_decay: 0}]}
train: {max_steps: 20, global_batch: 7, micro_batch: 3, precision: fp64}
parallel: {bucket_mb: 0.01, edge_bucket_mb: 0.002}
)";
}

// Matrices that one rank each updates as a whole, and a rest.
const char* const kMuon = R"(
model: {name: mlp, hidden: [12, 8, 8]}
data: {name: synthetic, samples: 64, classes: 3, shape: [20]}
optimizer: {name: sgd, lr: 0.005, momentum: 0.9, nesterov: true,
            groups: [{match: "*weight", name: muon, lr: 0.05, momentum: 0.6}]}
loss: {reduction: sum, label_smoothing: 0.1}
train: {max_steps: 20, global_batch: 16, precision: fp64}
)";

void expect_equal_losses(const std::string& yaml) {
  const Config config = config_of(yaml);
  const TrainingRun alone = train(config);
  ASSERT_EQ(alone.losses.size(), 20u);
  EXPECT_LT(alone.losses.back(), alone.losses.front()) << "it learns";
  for (const int ranks : {2, 3, 4}) {
    const TrainingRun together = train(config, {.ranks = ranks});
    EXPECT_LE(largest_difference(alone.losses, together.losses), kTolerance) << ranks << " ranks";
    EXPECT_LE(largest_difference(alone.metrics, together.metrics), kTolerance) << ranks << " ranks";
  }
}

TEST(Equivalence, HoldsForAnMlpWithUnevenBatchesDropoutAugmentationAndClipping) {
  expect_equal_losses(kMlp);
}

TEST(Equivalence, HoldsForATransformerWithParameterGroups) {
  const TemporaryDirectory directory;
  const auto text = directory.path() / "text.txt";
  std::ofstream out(text);
  for (int i = 0; i < 60; ++i) out << "the quick brown fox jumps over " << i << " lazy dogs\n";
  out.close();
  expect_equal_losses(gpt(text));
}

TEST(Equivalence, HoldsForMuonAndASummedLoss) { expect_equal_losses(kMuon); }

// BatchNorm normalises each micro-batch, and 1, 2 and 4 ranks have the same ones here.
TEST(Equivalence, HoldsForMuonOnConvolutionsInEitherMemoryFormat) {
  const auto yaml = [](bool channels_last) {
    return std::string("model: {name: convnet, width: 4, channels_last: ") +
           (channels_last ? "true" : "false") + R"(}
data: {name: synthetic, samples: 48, classes: 3, shape: [3, 8, 8], flip: random}
optimizer: {name: adamw, lr: 0.01, groups: [{match: "convs.*", name: muon, lr: 0.02, momentum: 0.6}]}
train: {max_steps: 20, global_batch: 12, micro_batch: 3, precision: fp64}
)";
  };
  const TrainingRun planar = train(config_of(yaml(false)));
  const Config interleaved = config_of(yaml(true));
  for (const int ranks : {1, 2, 4}) {
    EXPECT_LE(largest_difference(planar.losses, train(interleaved, {.ranks = ranks}).losses),
              kTolerance)
        << ranks << " ranks";
  }
}

std::string over_world(std::string yaml) {
  const std::size_t section = yaml.find("parallel: {");
  if (section == std::string::npos) return yaml + "parallel: {shard_over: world}\n";
  return yaml.insert(section + 11, "shard_over: world, ");
}

// Nodes of one, of two, and of three and two ranks; shards over either.
TEST(Equivalence, HoldsForRanksOnSeveralNodes) {
  for (const std::string yaml : {kMlp, kMuon}) {
    const TrainingRun alone = train(config_of(yaml));
    for (const auto& [ranks, per_node] : {std::pair(2, 1), std::pair(4, 2), std::pair(5, 3)}) {
      const TrainingSetup setup{.ranks = ranks, .ranks_per_node = per_node};
      const TrainingRun node = train(config_of(yaml), setup);
      const TrainingRun world = train(config_of(over_world(yaml)), setup);
      EXPECT_LE(largest_difference(alone.losses, node.losses), kTolerance) << ranks;
      EXPECT_LE(largest_difference(alone.losses, world.losses), kTolerance) << ranks;
      EXPECT_TRUE(bitwise_equal(node.parameters, world.parameters)) << ranks;
    }
  }
}

// Ranks of a node share their parameters, so a forward that writes one writes everybody's.
struct WritesItsWeight : Model {
  WritesItsWeight() { linear = register_module("linear", torch::nn::Linear(20, 3)); }
  virtual void write() { linear->weight.renorm_(2, 0, 1.0); }
  torch::Tensor forward(const torch::Tensor& input) override {
    const torch::NoGradGuard no_grad;
    if (is_training() && ++steps == 3) write();
    const at::AutoGradMode grad(true);
    return linear(input);
  }
  torch::nn::Linear linear{nullptr};
  int steps = 0;
};

// What an update then writes is not what forward reads.
struct ReplacesItsWeight : WritesItsWeight {
  void write() override { linear->weight.set_data(linear->weight * 0.5); }
};

template <class M>
std::string why_refused() {
  Registry registry = all_parts();
  registry.add(ModelEntry{"writes", "Writes.", {}, [](const Options&, const DatasetSpec&) {
                            return std::make_shared<M>();
                          }});
  std::string yaml = kMuon;
  yaml.replace(yaml.find("name: mlp, hidden: [12, 8, 8]"), 29, "name: writes");
  try {
    train(config_of(yaml, registry), {.ranks = 2}, registry);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "it trained";
}

TEST(Equivalence, AModelThatWritesItsParametersIsRefusedByName) {
  EXPECT_THAT(why_refused<WritesItsWeight>(), HasSubstr("writes its parameter 'linear.weight'"));
  EXPECT_THAT(why_refused<ReplacesItsWeight>(),
              HasSubstr("replaces its parameter 'linear.weight'"));
}

// Buckets are sized by a measurement: it must not decide what is learned.
TEST(Equivalence, IsBitwiseForAnySizeOfBuckets) {
  const TrainingSetup setup{.ranks = 4, .ranks_per_node = 2};
  const TrainingRun small = train(config_of(kMlp), setup);
  for (const char* size : {"0.003", "0.02", "25", "0"}) {
    std::string yaml = kMlp;
    yaml.replace(yaml.find("bucket_mb: 0.002, edge_bucket_mb: 0.001"), 39,
                 std::string("bucket_mb: ") + size);
    EXPECT_TRUE(bitwise_equal(small.parameters, train(config_of(yaml), setup).parameters)) << size;
  }
}

TEST(Equivalence, HoldsForAnyMicroBatch) {
  const TrainingRun whole = train(config_of(std::string(kMlp)));
  std::string yaml = kMlp;
  yaml.replace(yaml.find("micro_batch: 2"), 14, "micro_batch: 7");
  EXPECT_LE(largest_difference(whole.losses, train(config_of(yaml), {.ranks = 2}).losses),
            kTolerance);
}

TEST(Equivalence, IsBitwiseFromRunToRunAtOneWorldSize) {
  const Config config = config_of(kMlp);
  const TrainingRun once = train(config, {.ranks = 3});
  const TrainingRun again = train(config, {.ranks = 3});
  EXPECT_EQ(once.losses, again.losses);
  EXPECT_TRUE(bitwise_equal(once.parameters, again.parameters));
}

// A buffer that backward reads, such as a table of positions; one that changes; and one of whole
// numbers.
struct Buffered : Model {
  Buffered() {
    linear = register_module("linear", torch::nn::Linear(20, 3));
    scale = register_buffer("scale", torch::linspace(0.5, 1.5, 20, torch::kDouble));
    seen = register_buffer("seen", torch::zeros({1}, torch::kDouble));
    mask = register_buffer("mask", torch::ones({20}, torch::kBool));
  }
  torch::Tensor forward(const torch::Tensor& input) override {
    if (is_training()) seen.add_(input.detach().mean());
    return linear((input * input.mean(1, true) * scale).masked_fill(mask.logical_not(), 0));
  }
  torch::nn::Linear linear{nullptr};
  torch::Tensor scale, seen, mask;
};

TEST(Equivalence, HoldsForAModelWithBuffers) {
  Registry registry = all_parts();
  registry.add(ModelEntry{"buffered", "Buffers.", {}, [](const Options&, const DatasetSpec&) {
                            return std::make_shared<Buffered>();
                          }});
  std::string yaml = kMuon;
  yaml.replace(yaml.find("name: mlp, hidden: [12, 8, 8]"), 29, "name: buffered");
  const Config config = config_of(yaml, registry);
  const TrainingRun alone = train(config, {}, registry);
  for (const int ranks : {2, 3}) {
    const TrainingRun together = train(config, {.ranks = ranks}, registry);
    EXPECT_LE(largest_difference(alone.losses, together.losses), kTolerance) << ranks << " ranks";
    EXPECT_TRUE(alone.buffers[0].equal(together.buffers[0])) << "a constant stays what it is";
    EXPECT_TRUE(alone.buffers[1].allclose(together.buffers[1], 0, 1e-9))
        << "a mean over samples is one";
  }
}

// The control of the control: the tests above must see a gradient that one rank gets wrong.
TEST(Equivalence, SeesACorruptedGradientOfOneRank) {
  const Config config = config_of(kMlp);
  const TrainingRun right = train(config, {.ranks = 3});
  const auto corrupt = [](Session& session, Communicator& world) {
    if (world.rank() != 1) return;
    session.replica().trained.front().tensor.register_hook(
        [](const at::Tensor& gradient) { return gradient * 1.001; });
  };
  const TrainingRun wrong = train(config, {.ranks = 3, .before_run = corrupt});
  EXPECT_GT(largest_difference(right.losses, wrong.losses), 1e3 * kTolerance);
}

TEST(Equivalence, RefusesRanksWithOtherParametersBeforeTheFirstStep) {
  Registry registry = all_parts();
  std::atomic<int> made = 0;
  struct Swapped : Model {
    explicit Swapped(bool swap) {
      const auto add = [&](const char* name) { register_module(name, torch::nn::Linear(20, 20)); };
      add(swap ? "second" : "first");
      add(swap ? "first" : "second");
    }
    torch::Tensor forward(const torch::Tensor& input) override { return input; }
  };
  registry.add(ModelEntry{
      "swapped",
      "One of the ranks registers its layers in another order.",
      {},
      [&](const Options&, const DatasetSpec&) { return std::make_shared<Swapped>(made++ == 1); }});
  std::string yaml = kMuon;
  yaml.replace(yaml.find("name: mlp, hidden: [12, 8, 8]"), 29, "name: swapped");
  try {
    train(config_of(yaml, registry), {.ranks = 3}, registry);
    FAIL() << "ranks with different parameter orders were accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kCommunication);
    EXPECT_NE(std::string(error.what()).find("first.weight"), std::string::npos) << error.what();
  }
}

// The rule of the mean of rank means would weigh the one sample of rank 0 as much as the two of
// rank 1.
TEST(Equivalence, WeighsSamplesNotRanks) {
  const char* const yaml = R"(
model: {name: mlp, hidden: [5]}
data: {name: synthetic, samples: 3, classes: 2, shape: [4], shuffle: false}
optimizer: {name: sgd, lr: 1.0}
train: {max_steps: 1, global_batch: 3, precision: fp64}
)";
  const TrainingRun alone = train(config_of(yaml));
  const TrainingRun uneven = train(config_of(yaml), {.ranks = 2});
  for (std::size_t i = 0; i < alone.parameters.size(); ++i) {
    EXPECT_TRUE(alone.parameters[i].allclose(uneven.parameters[i], 0, kTolerance));
  }
}

}  // namespace
}  // namespace trireme::test
