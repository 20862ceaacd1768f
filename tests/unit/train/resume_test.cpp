// SPDX-License-Identifier: Apache-2.0
// A resumed run equals one that was never interrupted, bit for bit.
#include <gtest/gtest.h>

#include "checkpoint/archive.hpp"
#include "support/temporary_directory.hpp"
#include "support/training.hpp"

namespace trireme::test {
namespace {

// Dropout, augmentation, BatchNorm statistics, momentum, an uneven last batch, epochs of 5 steps.
std::string yaml(int workers, const std::string& precision = "fp32",
                 const std::string& model = "convnet, width: 4") {
  return R"(
model: {name: )" +
         model + R"(, dropout: 0.3}
data: {name: synthetic, samples: 33, classes: 3, shape: [3, 8, 8], flip: alternate, crop_padding: 1, crop_fill: reflect,
       workers: )" +
         std::to_string(workers) + R"(}
optimizer: {name: adamw, lr: 0.01, weight_decay: 0.1}
schedule: {name: one_cycle, warmup: 0}
train: {epochs: 2.4, global_batch: 7, micro_batch: 2, precision: )" +
         precision + R"(}
checkpoint: {every_steps: 1, keep: 100}
)";
}

void expect_same(const TrainingRun& whole, const TrainingRun& resumed, std::int64_t from) {
  const auto rest = [&](const std::vector<double>& values) {
    return std::vector<double>(values.begin() + from, values.end());
  };
  EXPECT_EQ(rest(whole.losses), resumed.losses) << "from step " << from;
  EXPECT_EQ(rest(whole.rates), resumed.rates) << "from step " << from;
  EXPECT_TRUE(bitwise_equal(whole.parameters, resumed.parameters)) << "from step " << from;
  if (!whole.buffers.empty()) {
    EXPECT_TRUE(bitwise_equal(whole.buffers, resumed.buffers)) << "from step " << from;
  }
}

TEST(Resume, IsBitwiseAtEveryStepForAnyNumberOfLoaderThreads) {
  for (const int ranks : {1, 2}) {
    const TemporaryDirectory directory;
    const TrainingRun whole =
        train(config_of(yaml(1)), {.ranks = ranks, .checkpoints = directory.path() / "whole"});
    ASSERT_EQ(whole.losses.size(), 12u);
    ASSERT_EQ(whole.checkpoints.size(), 12u);
    ASSERT_FALSE(whole.buffers.empty());
    for (std::int64_t k = 1; k < 12; ++k) {
      const TrainingRun resumed = train(
          config_of(yaml(1 + static_cast<int>(k) % 3)),
          {.ranks = ranks, .restore = whole.checkpoints[static_cast<std::size_t>(k - 1)].path});
      expect_same(whole, resumed, k);
    }
  }
}

TEST(Resume, IsBitwiseForMatrixRulesAndFrozenGroups) {
  const std::string muon = R"(
model: {name: mlp, hidden: [12, 8]}
data: {name: synthetic, samples: 40, classes: 3, shape: [10]}
optimizer: {name: sgd, lr: 0.05, momentum: 0.9, groups: [{match: "*0.bias", frozen: true}, {match: "*weight", name: muon, lr: 0.02, momentum: 0.6}]}
train: {max_steps: 8, global_batch: 8}
checkpoint: {every_steps: 3, keep: 100}
)";
  const TemporaryDirectory directory;
  const TrainingRun whole =
      train(config_of(muon), {.ranks = 3, .checkpoints = directory.path() / "whole"});
  expect_same(whole,
              train(config_of(muon), {.ranks = 3, .restore = whole.checkpoints.front().path}), 3);
}

TEST(Resume, GoesOnAtOtherWorldSizesWithoutRepeatingOrLosingASample) {
  const std::string model = "mlp, hidden: [9]";
  const TemporaryDirectory directory;
  const TrainingRun whole = train(config_of(yaml(1, "fp64", model)));
  std::vector<double> losses;
  std::filesystem::path restore;
  for (const int ranks : {4, 2, 3, 1}) {
    Config part = config_of(yaml(1, "fp64", model));
    part.train.eval_every_epochs = 0;  // so that only steps ask whether to stop
    const std::int64_t until = static_cast<std::int64_t>(losses.size()) + 3;
    const auto checkpoints = directory.path() / std::to_string(until);
    std::int64_t asked = static_cast<std::int64_t>(losses.size());
    const TrainingRun run =
        train(part, {.ranks = ranks,
                     .checkpoints = checkpoints,
                     .restore = restore,
                     .stop_requested = [&](int rank) { return rank == 0 && ++asked >= until; }});
    losses.insert(losses.end(), run.losses.begin(), run.losses.end());
    ASSERT_EQ(static_cast<std::int64_t>(losses.size()), until);
    restore = run.checkpoints.back().path;
  }
  EXPECT_LE(largest_difference(whole.losses, losses), 1e-10);
}

TEST(Resume, StopsOnAllRanksAtTheSameStepWithACheckpointOfIt) {
  const TemporaryDirectory directory;
  std::int64_t asked = 0;
  const TrainingRun run =
      train(config_of(yaml(1)),
            {.ranks = 3, .checkpoints = directory.path() / "c", .stop_requested = [&](int rank) {
               return rank == 2 && ++asked == 4;
             }});
  EXPECT_EQ(run.end.status, "stopped");
  EXPECT_EQ(run.end.steps, 4);
  EXPECT_EQ(run.checkpoints.back().step, 4);
}

// A signal reaches the ranks at different moments.
TEST(Resume, ARequestOfAnyRankMakesOneCheckpointAndChangesNothing) {
  const TemporaryDirectory directory;
  Config config = config_of(yaml(1));
  config.checkpoint.every_steps = 0;
  const TrainingRun whole = train(config, {.ranks = 3});
  std::vector<std::int64_t> asked(3);  // [rank]
  // Rank 2 before its 4th step, rank 0 while the checkpoint is made: asked once more after it.
  const auto take = [&](int rank) {
    const std::int64_t time = ++asked[static_cast<std::size_t>(rank)];
    return (rank == 2 && time == 4) || (rank == 0 && time == 5);
  };
  const TrainingRun run =
      train(config, {.ranks = 3, .checkpoints = directory.path(), .take_save_request = take});
  EXPECT_EQ(run.end.status, "finished");
  ASSERT_EQ(run.checkpoints.size(), 2u);
  EXPECT_EQ(run.checkpoints[0].step, 4);
  EXPECT_EQ(run.checkpoints[1].step, run.end.steps);
  EXPECT_TRUE(bitwise_equal(whole.parameters, run.parameters));
}

// The moments: each step, each batch of each evaluation, on one rank of two.
TEST(Resume, AStopAtAnyMomentChangesNothing) {
  const Config config = config_of(R"(
model: {name: mlp, hidden: [8]}
data: {name: synthetic, samples: 50, classes: 3, shape: [6], validation_fraction: 0.2}
optimizer: {name: adam, lr: 0.01}
train: {epochs: 2, global_batch: 8}
)");
  const TrainingRun whole = train(config, {.ranks = 2});
  int moment = 0;
  for (;; ++moment) {
    const TemporaryDirectory directory;
    const auto checkpoints = directory.path() / "c";
    int asked = 0;
    const TrainingRun stopped =
        train(config, {.ranks = 2, .checkpoints = checkpoints, .stop_requested = [&](int rank) {
                         return rank == 1 && asked++ >= moment;
                       }});
    if (stopped.end.status == "finished") break;
    ASSERT_EQ(stopped.end.status, "stopped");
    const TrainingRun resumed =
        train(config, {.ranks = 2, .checkpoints = checkpoints, .restore = checkpoints / "latest"});
    EXPECT_EQ(resumed.end.status, "finished");
    EXPECT_TRUE(bitwise_equal(whole.parameters, resumed.parameters)) << moment;
    std::vector<EvalEvent> evaluations = stopped.evaluations;
    evaluations.insert(evaluations.end(), resumed.evaluations.begin(), resumed.evaluations.end());
    ASSERT_EQ(evaluations.size(), whole.evaluations.size()) << moment;
    for (std::size_t i = 0; i < evaluations.size(); ++i) {
      EXPECT_EQ(evaluations[i].step, whole.evaluations[i].step) << moment;
      EXPECT_EQ(evaluations[i].split, whole.evaluations[i].split) << moment;
      EXPECT_EQ(evaluations[i].loss, whole.evaluations[i].loss) << moment;
      EXPECT_EQ(evaluations[i].best, whole.evaluations[i].best) << moment;
    }
    EXPECT_EQ(resumed.state.best_step, whole.state.best_step) << moment;
    EXPECT_FALSE(resumed.state.evaluation_pending);
    EXPECT_EQ(std::filesystem::read_symlink(checkpoints / "best"),
              whole.state.best_step == 5 ? "step-00000005" : "step-00000010");
  }
  // 10 steps; twice 2 batches of the validation split, at the end 7 of the test split.
  EXPECT_EQ(moment, 10 + 2 * 2 + 7);
}

TEST(Resume, RefusesAnotherModelWithATableOfShapes) {
  const TemporaryDirectory directory;
  const TrainingRun run = train(config_of(yaml(1, "fp32", "mlp, hidden: [9]")),
                                {.checkpoints = directory.path() / "c"});
  try {
    train(config_of(yaml(1, "fp32", "mlp, hidden: [10]")),
          {.ranks = 2, .restore = run.checkpoints.back().path});
    FAIL() << "a checkpoint of another model was accepted";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.code(), ExitCode::kCheckpoint);
    EXPECT_NE(text.find("[9, 192]"), std::string::npos) << text;
    EXPECT_NE(text.find("[10, 192]"), std::string::npos) << text;
  }
}

TEST(Resume, KeepsTheNewestCheckpoints) {
  const TemporaryDirectory directory;
  Config config = config_of(yaml(1));
  config.checkpoint.keep = 2;
  train(config, {.checkpoints = directory.path() / "c"});
  const auto kept = list_checkpoints(directory.path() / "c");
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept.back().filename(), "step-00000012");
}

}  // namespace
}  // namespace trireme::test
