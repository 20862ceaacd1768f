// SPDX-License-Identifier: Apache-2.0
// Training with compressed gradients: close to training without, exactly repeatable, exactly
// resumable.
#include <gtest/gtest.h>

#include "checkpoint/archive.hpp"
#include "support/temporary_directory.hpp"
#include "support/training.hpp"
#include "trireme/error.hpp"

namespace trireme::test {
namespace {

std::string yaml(const std::string& parallel, const std::string& precision = "fp32") {
  return R"(
model: {name: mlp, hidden: [24, 16]}
data: {name: synthetic, samples: 64, classes: 4, shape: [3, 6, 6], mean: [0.5, 0.5, 0.5], std: [0.25, 0.25, 0.25]}
optimizer: {name: sgd, lr: 0.05, momentum: 0.9}
train: {max_steps: 30, global_batch: 16, precision: )" +
         precision + R"(}
checkpoint: {every_steps: 10, keep: 100}
parallel: {bucket_mb: 0.004, edge_bucket_mb: 0.002, )" +
         parallel + "}\n";
}

const TrainingSetup kTwoNodes{.ranks = 4, .ranks_per_node = 2};

TrainingRun train_compressed(const std::string& parallel) {
  return train(config_of(yaml(parallel)), kTwoNodes);
}

TEST(Compression, OfNoNodesChangesNothing) {
  const TrainingRun exact = train(config_of(yaml("compression: none")), {.ranks = 3});
  for (const char* kind : {"fp16", "bf16", "powersgd, powersgd_start: 0"}) {
    const TrainingRun run =
        train(config_of(yaml(std::string("compression: ") + kind)), {.ranks = 3});
    EXPECT_TRUE(bitwise_equal(exact.parameters, run.parameters)) << kind;
  }
}

TEST(Compression, AtHalfWidthTrainsNearlyTheSame) {
  const TrainingRun exact = train_compressed("compression: none");
  EXPECT_LT(exact.losses.back(), 0.9 * exact.losses.front()) << "it learns";
  // bf16 has an eighth of fp16's precision.
  for (const auto& [kind, tolerance] : {std::pair("fp16", 2e-3), std::pair("bf16", 1.6e-2)}) {
    for (const char* feedback : {"false", "true"}) {
      const TrainingRun run =
          train_compressed(std::string("compression: ") + kind + ", error_feedback: " + feedback);
      EXPECT_EQ(run.losses.front(), exact.losses.front()) << "before the first update";
      EXPECT_FALSE(bitwise_equal(exact.parameters, run.parameters)) << "it is compressed";
      EXPECT_LE(largest_difference(exact.losses, run.losses), tolerance) << kind << feedback;
    }
  }
}

TEST(Compression, PowerSgdLearnsWhatExactSumsLearn) {
  const TrainingRun exact = train_compressed("compression: none");
  const TrainingRun run =
      train_compressed("compression: powersgd, powersgd_rank: 2, powersgd_start: 5");
  for (std::size_t step = 0; step <= 5; ++step) EXPECT_EQ(run.losses[step], exact.losses[step]);
  EXPECT_NE(run.losses.back(), exact.losses.back());
  const double learned = exact.losses.front() - exact.losses.back();
  EXPECT_GT(run.losses.front() - run.losses.back(), 0.7 * learned);
}

TEST(Compression, IsBitwiseFromRunToRunAndWhenResumed) {
  for (const char* kind : {"fp16, error_feedback: true", "bf16, error_feedback: true",
                           "powersgd, powersgd_rank: 2, powersgd_start: 3"}) {
    const Config config = config_of(yaml(std::string("compression: ") + kind));
    const TemporaryDirectory directory;
    TrainingSetup setup = kTwoNodes;
    setup.checkpoints = directory.path() / "whole";
    const TrainingRun whole = train(config, setup);
    ASSERT_EQ(whole.checkpoints.size(), 3u);
    TrainingSetup resumed = kTwoNodes;
    for (std::size_t k = 0; k < 2; ++k) {
      resumed.restore = whole.checkpoints[k].path;
      EXPECT_TRUE(bitwise_equal(whole.parameters, train(config, resumed).parameters)) << kind;
    }
    // Another number of nodes goes on, if not bitwise.
    resumed.ranks_per_node = 1;
    const TrainingRun other = train(config, resumed);
    EXPECT_LE(std::abs(other.losses.back() - whole.losses.back()), 0.05) << kind;
  }
}

// So that a bucket size from a measured link, another one in every run, changes no bit.
TEST(Compression, AtHalfWidthDoesNotDependOnTheBuckets) {
  for (const char* kind : {"fp16", "fp16, error_feedback: true", "bf16, error_feedback: true"}) {
    const auto config = [&](const std::string& buckets) {
      std::string text = yaml(std::string("compression: ") + kind);
      const std::string own = "bucket_mb: 0.004, edge_bucket_mb: 0.002";
      return config_of(text.replace(text.find(own), own.size(), buckets));
    };
    const TemporaryDirectory directory;
    TrainingSetup setup = kTwoNodes;
    setup.checkpoints = directory.path() / "small";
    const TrainingRun small = train(config("bucket_mb: 0.001, edge_bucket_mb: 0.001"), setup);
    const TrainingRun large = train(config("bucket_mb: 1"), kTwoNodes);
    EXPECT_TRUE(bitwise_equal(small.parameters, large.parameters)) << kind;
    TrainingSetup resumed = kTwoNodes;
    resumed.restore = small.checkpoints[0].path;
    const TrainingRun other = train(config("bucket_mb: 0.003"), resumed);
    EXPECT_TRUE(bitwise_equal(small.parameters, other.parameters)) << kind << ", resumed";
  }
}

TEST(Compression, AResumeWithoutWhatIsOwedWouldBeAnother) {
  const Config config = config_of(yaml("compression: bf16, error_feedback: true"));
  const TemporaryDirectory directory;
  TrainingSetup setup = kTwoNodes;
  setup.checkpoints = directory.path() / "whole";
  const TrainingRun whole = train(config, setup);
  const CheckpointReader reader(whole.checkpoints[0].path);
  for (const char* slot : {"residual.0", "residual.1", "sum_residual"}) {
    const ArrayInfo* residual =
        reader.find(std::string("compression/") + slot + "/layers.0.weight");
    ASSERT_NE(residual, nullptr);
    std::vector<float> values(residual->size_bytes() / sizeof(float));
    reader.read(*residual, std::as_writable_bytes(std::span(values)));
    EXPECT_TRUE(std::any_of(values.begin(), values.end(), [](float x) { return x != 0; }));
  }
}

// Gradients of the first layer grow with the input.
TEST(Compression, TellsWhatTheTypeCouldNotHold) {
  const auto of_input = [](const std::string& compression, const std::string& deviation) {
    std::string text = yaml("compression: " + compression);
    const std::string one = "std: [0.25, 0.25, 0.25]";
    text.replace(text.find(one), one.size(),
                 "std: [" + deviation + ", " + deviation + ", " + deviation + "]");
    Config config = config_of(text);
    config.train.max_steps = 1;
    return train(config, kTwoNodes);
  };
  EXPECT_GT(of_input("fp16", "1e-9").saturated[0], 0);
  EXPECT_EQ(of_input("fp16", "0.25").saturated[0], 0);
  EXPECT_EQ(of_input("bf16", "1e-9").saturated[0], 0) << "which has the range of fp32";
  EXPECT_EQ(of_input("none", "1e-9").saturated[0], 0);
}

TEST(Compression, OfDoublesIsRefused) {
  EXPECT_THROW(config_of(yaml("compression: fp16", "fp64")), ConfigError);
}

}  // namespace
}  // namespace trireme::test
