// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.hpp"

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <atomic>
#include <cmath>
#include <limits>

#include "checkpoint/archive.hpp"
#include "support/temporary_directory.hpp"
#include "support/training.hpp"
#include "trireme/model.hpp"

namespace trireme::test {
namespace {

const char* const kSmall = R"(
model: {name: mlp, hidden: [8]}
data: {name: synthetic, samples: 50, classes: 3, shape: [6], validation_fraction: 0.2}
optimizer: {name: sgd, lr: 0.1}
train: {epochs: 4, global_batch: 8, precision: fp64}
)";

TEST(Evaluation, CountsEverySampleOnceAtAnyWorldSize) {
  Config config = config_of(kSmall);
  const TrainingRun alone = train(config);
  ASSERT_EQ(alone.evaluations.size(), 5u);  // four on the validation split, one on the test split
  EXPECT_EQ(alone.evaluations.back().split, "test");
  EXPECT_EQ(alone.evaluations.back().samples, 50);
  EXPECT_EQ(alone.evaluations.front().samples, 10);
  for (const int ranks : {2, 3, 4}) {
    const TrainingRun together = train(config, {.ranks = ranks});
    for (std::size_t i = 0; i < alone.evaluations.size(); ++i) {
      EXPECT_EQ(together.evaluations[i].samples, alone.evaluations[i].samples);
      EXPECT_NEAR(together.evaluations[i].loss, alone.evaluations[i].loss, 1e-10);
      EXPECT_NEAR(together.evaluations[i].metric, alone.evaluations[i].metric, 1e-10);
    }
  }
}

TEST(Evaluation, NeverChoosesTheBestOnTheTestSplit) {
  for (const EvalEvent& event : train(config_of(kSmall)).evaluations) {
    if (event.split == "test") {
      EXPECT_FALSE(event.best);
    }
  }
}

TEST(Evaluation, AveragesTheSixViewsOfTheRecipe) {
  struct FirstPixels : Model {
    torch::Tensor forward(const torch::Tensor& x) override { return x.index({"...", 0, 0}); }
  } model;
  const at::Tensor image = torch::arange(16, torch::kDouble).view({1, 1, 4, 4});
  EXPECT_EQ(forward_views(model, image, "single").item<double>(), 0);
  EXPECT_EQ(forward_views(model, image, "mirror").item<double>(), 1.5);
  // Reflect-padded by 1: the crop at (0, 0) starts with pixel (1, 1) = 5 and ends its row with (1,
  // 2) = 6; the crop at (2, 2) starts with pixel (1, 1) = 5 and ends its row with (1, 2) = 6
  // reflected: columns 1, 2, 3, 2.
  EXPECT_EQ(forward_views(model, image, "six").item<double>(),
            0.5 * 1.5 + 0.25 * (5 + 6) / 2 + 0.25 * (5 + 6) / 2);
}

// Notes the sizes of the batches that it sees in evaluation.
struct Watching : Model {
  explicit Watching(std::vector<std::int64_t>& sizes) : sizes_seen(sizes) {
    linear = register_module("linear", torch::nn::Linear(3 * 4 * 4, 3));
  }
  torch::Tensor forward(const torch::Tensor& input) override {
    if (!is_training()) sizes_seen.push_back(input.size(0));
    return linear(input.flatten(1));
  }
  std::vector<std::int64_t>& sizes_seen;
  torch::nn::Linear linear{nullptr};
};

TEST(Evaluation, TakesBatchesAndViewsAsConfigured) {
  std::vector<std::int64_t> sizes;
  Registry registry = all_parts();
  registry.add(
      ModelEntry{"watching", "Notes what it sees.", {}, [&](const Options&, const DatasetSpec&) {
                   return std::make_shared<Watching>(sizes);
                 }});
  const Config config = config_of(R"(
model: {name: watching}
data: {name: synthetic, samples: 10, classes: 3, shape: [3, 4, 4]}
optimizer: {name: sgd, lr: 0.1}
train: {max_steps: 1, global_batch: 5, eval_batch: 4, eval_views: six}
)",
                                  registry);
  const auto forget_trials = [&](Session&, Communicator&) { sizes.clear(); };
  train(config, {.before_run = forget_trials}, registry);
  std::vector<std::int64_t> expected(12, 4);  // two batches of 4, each seen in six views
  expected.insert(expected.end(), 6, 2);
  EXPECT_EQ(sizes, expected);
}

TEST(Trainer, DropsTheLastBatchOfAnEpochWhereAsked) {
  Config config = config_of(kSmall);
  config.data.validation_fraction = 0;  // 50 samples, batches of 8
  EXPECT_EQ(train(config).losses.size(), 4u * 7);
  config.data.drop_last = true;
  EXPECT_EQ(train(config).losses.size(), 4u * 6);
}

TEST(Trainer, KeepsTheBestCheckpointBesidesTheNewest) {
  const TemporaryDirectory directory;
  Config config = config_of(kSmall);
  config.checkpoint.keep = 1;
  const TrainingRun run = train(config, {.ranks = 2, .checkpoints = directory.path() / "c"});
  double best = -1;
  std::int64_t best_step = -1;
  for (const EvalEvent& event : run.evaluations) {
    if (event.split == "validation" && event.metric > best) {
      best = event.metric;
      best_step = event.step;
    }
  }
  EXPECT_EQ(run.state.best_step, best_step);
  const auto link = std::filesystem::read_symlink(directory.path() / "c" / "best");
  EXPECT_EQ(CheckpointReader(directory.path() / "c" / link).step(), best_step);
  EXPECT_LE(list_checkpoints(directory.path() / "c").size(), 2u);
}

TEST(Trainer, StopsEarlyOnAllRanksWhenTheValidationSplitGetsNoBetter) {
  Config config = config_of(kSmall);
  config.optimizer.lr = 1e-12;  // nothing changes: the first evaluation stays the best
  config.train.patience = 2;
  const TrainingRun run = train(config, {.ranks = 3});
  EXPECT_EQ(run.end.status, "early_stop");
  EXPECT_EQ(run.end.steps, 3 * 5);
  EXPECT_EQ(run.evaluations.back().split, "test");
}

// A model that works until its nth forward in training, then yields NaN on one rank.
struct Poisoned : Model {
  Poisoned(int calls, bool bad) : calls_left(calls), is_bad(bad) {
    linear = register_module("linear", torch::nn::Linear(6, 3));
  }
  torch::Tensor forward(const torch::Tensor& input) override {
    torch::Tensor output = linear(input.to(linear->weight.scalar_type()));
    if (is_training() && is_bad && --calls_left == 0)
      output = output * std::numeric_limits<double>::quiet_NaN();
    return output;
  }
  int calls_left;
  bool is_bad;
  torch::nn::Linear linear{nullptr};
};

TEST(Trainer, StopsAllRanksBeforeTheUpdateWhenALossIsNotFinite) {
  const TemporaryDirectory directory;
  Registry registry = all_parts();
  std::atomic<int> made = 0;
  registry.add(
      ModelEntry{"poisoned", "NaN on one rank.", {}, [&](const Options&, const DatasetSpec&) {
                   return std::make_shared<Poisoned>(4, made++ == 1);
                 }});
  std::string yaml = kSmall;
  yaml.replace(yaml.find("name: mlp, hidden: [8]"), 22, "name: poisoned");
  Config config = config_of(yaml, registry);
  config.checkpoint.every_steps = 1;
  try {
    train(config, {.ranks = 3, .checkpoints = directory.path() / "c"}, registry);
    FAIL() << "a NaN went unnoticed";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.code(), ExitCode::kNumerics);
    EXPECT_NE(text.find("step 4"), std::string::npos) << text;
    EXPECT_NE(text.find("rank "), std::string::npos) << text;
    EXPECT_NE(text.find("samples "), std::string::npos) << text;
  }
  EXPECT_EQ(list_checkpoints(directory.path() / "c").back().filename(), "step-00000003");
}

TEST(Trainer, RunsForEpochsOrStepsWhicheverEndsFirst) {
  Config config = config_of(kSmall);  // 40 samples, 5 steps an epoch
  EXPECT_EQ(run_length(config, 40).total_steps, 20);
  config.train.max_steps = 7;
  EXPECT_EQ(run_length(config, 40).total_steps, 7);
  config.train.epochs = 0.4;
  EXPECT_EQ(run_length(config, 40).total_steps, 2);
  config.train.epochs = 0;
  EXPECT_EQ(run_length(config, 40).total_steps, 7);
}

TEST(Trainer, TrainsWithFewerSamplesThanRanks) {
  Config config = config_of(R"(
model: {name: mlp, hidden: [4]}
data: {name: synthetic, samples: 2, classes: 2, shape: [3]}
optimizer: {name: sgd, lr: 0.1}
train: {epochs: 3, global_batch: 8, precision: fp64}
)");
  EXPECT_LE(largest_difference(train(config).losses, train(config, {.ranks = 4}).losses), 1e-10);
}

}  // namespace
}  // namespace trireme::test
