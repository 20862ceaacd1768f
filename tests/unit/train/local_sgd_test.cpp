// SPDX-License-Identifier: Apache-2.0
// parallel.sync_every: nodes train for themselves and are averaged.
#include <gtest/gtest.h>

#include <atomic>

#include "comm/shared_error.hpp"
#include "comm/threads.hpp"
#include "support/forwarding_communicator.hpp"
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

// A checkpoint is one set of parameters: the request waits for the next average, and the nodes part
// as if nobody had asked.
TEST(LocalSgd, ARequestedCheckpointWaitsForTheAverage) {
  Config config = config_of(yaml("sync_every: 16", "adamw, lr: 0.01"));
  config.checkpoint.every_steps = 0;
  const TemporaryDirectory directory;
  const TrainingRun whole = train(config, kTwoNodes);
  TrainingSetup setup = kTwoNodes;
  setup.checkpoints = directory.path();
  std::atomic<int> asked = 0;
  setup.take_save_request = [&](int rank) { return rank == 1 && ++asked == 3; };
  const TrainingRun run = train(config, setup);
  EXPECT_EQ(steps_of(run.checkpoints), (Steps{16, 32}));
  EXPECT_TRUE(bitwise_equal(whole.parameters, run.parameters));
}

// Which is due when nodes would have been together, or, where they do not part any more, at once.
TEST(LocalSgd, AnEvaluationThatAStopComesBeforeIsMade) {
  const TemporaryDirectory directory;
  Config config = config_of(yaml("sync_every: 16"));
  config.train.eval_every_epochs = 1.25;  // 5 steps
  TrainingSetup setup = kTwoNodes;
  setup.checkpoints = directory.path();
  std::atomic<int> asked = 0;
  setup.stop_requested = [&](int rank) { return rank == 1 && ++asked == 7; };
  const TrainingRun stopped = train(config, setup);
  ASSERT_EQ(steps_of(stopped.checkpoints), Steps{7});
  EXPECT_TRUE(stopped.evaluations.empty());
  for (const auto& [ranks_per_node, steps] :
       {std::pair(2, Steps{16, 32}), std::pair(0, Steps{8, 10, 15, 20, 25, 30, 32})}) {
    const TrainingRun rest = train(
        config,
        {.ranks = 4, .ranks_per_node = ranks_per_node, .restore = stopped.checkpoints[0].path});
    EXPECT_EQ(steps_of(rest.evaluations), steps) << ranks_per_node;
  }
}

// Each by the norm of its own gradient: a node's norm is that of a rank alone with its samples.
TEST(LocalSgd, ClipsEachNodesOwnGradient) {
  const auto one_step = [](const TrainingSetup& setup, std::int64_t batch, double clip) {
    Config config = config_of(yaml("sync_every: 4"));
    config.data.shuffle = false;
    config.train.max_steps = 1;
    config.train.global_batch = batch;
    config.train.clip_norm = clip;
    return train(config, setup);
  };
  const TrainingSetup nodes{.ranks = 2, .ranks_per_node = 1};
  // Rank 0 of two takes the first half of the batch.
  const double alone = one_step({.ranks = 1}, 8, 0).norms[0];
  EXPECT_NEAR(one_step(nodes, 16, 0).norms[0], alone, 1e-12);
  EXPECT_GT(std::abs(one_step({.ranks = 2}, 16, 0).norms[0] - alone), 1e-3) << "of all samples";
  // A bound below node 0's norm acts, one above both does not.
  const auto start = one_step(nodes, 16, 0).parameters;
  EXPECT_TRUE(bitwise_equal(start, one_step(nodes, 16, 1e6).parameters));
  EXPECT_FALSE(bitwise_equal(start, one_step(nodes, 16, 0.9 * alone).parameters));
}

// Where gradients see other nodes than the rest does: GPUs of one host, each a node.
class EachANode : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;
  Placement placement() const override { return {.num_nodes = size(), .node = rank()}; }
  Request node_reduce_scatter(Span data, std::span<const std::size_t>, const Wire&) override {
    return inner_.all_reduce(data);
  }
  Buffer allocate_shared(std::size_t size_bytes) override { return inner_.allocate(size_bytes); }
};

TEST(LocalSgd, CountsTheNodesWhereGradientsAreSummed) {
  Config config = config_of(yaml("sync_every: 4"));
  config.train.max_steps = 1;
  TrainingRun apart;
  run_as_threads(2, [&](Communicator& world) {
    EachANode gpus(world);
    TrainingRun own = train_together(gpus, config);
    if (world.rank() == 0) apart = std::move(own);
  });
  config.parallel.sync_every = 1;
  const TrainingRun together = train(config, {.ranks = 2});
  for (std::size_t i = 0; i < together.parameters.size(); ++i) {
    EXPECT_LT((apart.parameters[i] - together.parameters[i]).abs().max().item<double>(), 1e-14)
        << i;
  }
}

TEST(LocalSgd, WantsEquallyManyRanksOnEveryNode) {
  EXPECT_THROW(train(config_of(yaml("sync_every: 4")), {.ranks = 3, .ranks_per_node = 2}),
               SharedError);
}

}  // namespace
}  // namespace trireme::test
