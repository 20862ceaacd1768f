// SPDX-License-Identifier: Apache-2.0
// parallel.sync_every: nodes train for themselves and are averaged.
#include <gtest/gtest.h>

#include <atomic>

#include "comm/shared_error.hpp"
#include "support/temporary_directory.hpp"
#include "support/training.hpp"

namespace trireme::test {
namespace {

std::string yaml(const std::string& parallel, const std::string& optimizer = "sgd, lr: 0.05") {
  return R"(
model: {name: mlp, hidden: [24, 16]}
data: {name: synthetic, samples: 64, classes: 4, shape: [3, 6, 6], drop_last: true}
optimizer: {name: )" +
         optimizer + R"(}
train: {max_steps: 32, global_batch: 16, precision: fp64}
checkpoint: {every_steps: 3, keep: 100}
parallel: {)" +
         parallel + "}\n";
}

const TrainingSetup kTwoNodes{.ranks = 4, .ranks_per_node = 2};

TEST(LocalSgd, OfOneStepIsSummedGradients) {
  // Plain SGD is linear in the gradient: averaging after each step is the same. Every second step
  // is not.
  const TrainingRun summed = train(config_of(yaml("sync_every: 1")), kTwoNodes);
  const TrainingRun apart = train(config_of(yaml("sync_every: 2")), kTwoNodes);
  EXPECT_NEAR(summed.losses[0], apart.losses[0], 1e-12);
  EXPECT_NEAR(summed.losses[1], apart.losses[1], 0.02) << "of two nodes' own parameters";
  EXPECT_NE(summed.losses.back(), apart.losses.back());
  EXPECT_NEAR(summed.losses.back(), apart.losses.back(), 0.05);
  EXPECT_LT(apart.losses.back(), apart.losses.front()) << "it learns";
}

// Two nodes of one rank each, by hand: each trains alone on its half, then the mean.
TEST(LocalSgd, AveragesWhatEachNodeLearnedAlone) {
  const auto of_steps = [](std::int64_t steps, std::int64_t every) {
    Config config = config_of(yaml("sync_every: " + std::to_string(every)));
    config.train.max_steps = steps;
    return train(config, {.ranks = 2, .ranks_per_node = 1}).parameters;
  };
  // One step apart and averaged is one step of the summed gradient.
  const auto apart = of_steps(1, 4), together = of_steps(1, 1);
  for (std::size_t i = 0; i < apart.size(); ++i)
    EXPECT_LT((apart[i] - together[i]).abs().max().item<double>(), 1e-14) << i;
}

using Steps = std::vector<std::int64_t>;

template <class Event>
Steps steps_of(const std::vector<Event>& events) {
  Steps steps;
  for (const Event& event : events) steps.push_back(event.step);
  return steps;
}

// Saves every 6 steps and evaluates every 5.
TrainingRun run_with_cadence(const std::string& parallel, TrainingSetup setup) {
  const TemporaryDirectory directory;
  setup.checkpoints = directory.path();
  Config config = config_of(yaml(parallel));
  config.checkpoint.every_steps = 6;
  config.train.eval_every_epochs = 1.25;
  return train(config, setup);
}

TEST(LocalSgd, OnOneNodeChangesNothing) {
  const TrainingRun with = run_with_cadence("sync_every: 4", {.ranks = 4});
  const TrainingRun without = run_with_cadence("sync_every: 1", {.ranks = 4});
  EXPECT_TRUE(bitwise_equal(with.parameters, without.parameters));
  EXPECT_EQ(steps_of(without.checkpoints), (Steps{6, 12, 18, 24, 30, 32}));
  EXPECT_EQ(steps_of(with.checkpoints), steps_of(without.checkpoints));
  EXPECT_EQ(steps_of(without.evaluations), (Steps{5, 10, 15, 20, 25, 30, 32}));
  EXPECT_EQ(steps_of(with.evaluations), steps_of(without.evaluations));
}

TEST(LocalSgd, OnSeveralNodesWhatIsDueWaitsUntilTheyAreTogether) {
  const TrainingRun run = run_with_cadence("sync_every: 4", kTwoNodes);
  EXPECT_EQ(steps_of(run.checkpoints), (Steps{8, 12, 20, 24, 32}));
  EXPECT_EQ(steps_of(run.evaluations), (Steps{8, 12, 16, 20, 28, 32}));
}

TEST(LocalSgd, SavesWhenNodesAreTogetherAndResumesBitwise) {
  const Config config = config_of(yaml("sync_every: 4", "adamw, lr: 0.01"));
  const TemporaryDirectory directory;
  TrainingSetup setup = kTwoNodes;
  setup.checkpoints = directory.path() / "whole";
  const TrainingRun whole = train(config, setup);
  EXPECT_EQ(steps_of(whole.checkpoints), (Steps{4, 8, 12, 16, 20, 24, 28, 32}));
  TrainingSetup resumed = kTwoNodes;
  for (const std::size_t k : {0u, 3u}) {
    resumed.restore = whole.checkpoints[k].path;
    EXPECT_TRUE(bitwise_equal(whole.parameters, train(config, resumed).parameters)) << k;
  }
}

// A time limit does not wait for the next average, which may be far.
TEST(LocalSgd, AStopAveragesAtOnceAndTheRunGoesOn) {
  const Config config = config_of(yaml("sync_every: 16", "adamw, lr: 0.01"));
  const TemporaryDirectory directory;
  TrainingSetup setup = kTwoNodes;
  setup.checkpoints = directory.path() / "stopped";
  std::atomic<int> asked = 0;
  setup.stop_requested = [&](int rank) { return rank == 1 && ++asked == 3; };
  const TrainingRun stopped = train(config, setup);
  EXPECT_EQ(stopped.end.status, "stopped");
  ASSERT_EQ(stopped.checkpoints.size(), 1u);
  EXPECT_EQ(stopped.checkpoints[0].step, 3);
  TrainingSetup resumed = kTwoNodes;
  resumed.restore = stopped.checkpoints[0].path;
  resumed.checkpoints = directory.path() / "resumed";
  const TrainingRun rest = train(config, resumed);
  EXPECT_EQ(rest.end.status, "finished");
  ASSERT_EQ(rest.checkpoints.size(), 2u);
  EXPECT_EQ(rest.checkpoints[0].step, 16) << "the period goes on as before";
  EXPECT_LT(rest.losses.back(), stopped.losses.front()) << "it goes on learning";
}

TEST(LocalSgd, WantsEquallyManyRanksOnEveryNode) {
  EXPECT_THROW(train(config_of(yaml("sync_every: 4")), {.ranks = 3, .ranks_per_node = 2}),
               SharedError);
}

}  // namespace
}  // namespace trireme::test
