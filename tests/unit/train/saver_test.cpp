// SPDX-License-Identifier: Apache-2.0
// Checkpoints that are written while training goes on.
#include "train/saver.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <map>

#include "comm/shared_error.hpp"
#include "comm/threads.hpp"
#include "support/temporary_directory.hpp"
#include "support/training.hpp"
#include "unit/train/held_commits.hpp"

namespace trireme::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

Config small(std::int64_t steps, std::int64_t every) {
  Config config = config_of(R"(
model: {name: convnet, width: 4}
data: {name: synthetic, samples: 40, classes: 3, shape: [3, 8, 8]}
optimizer: {name: adamw, lr: 0.01}
train: {max_steps: 6, global_batch: 8, eval_every_epochs: 0}
checkpoint: {keep: 100}
)");
  config.train.max_steps = steps;
  config.checkpoint.every_steps = every;
  return config;
}

std::map<std::string, std::vector<std::byte>> arrays_of(const fs::path& checkpoint) {
  const CheckpointReader reader(checkpoint);
  std::map<std::string, std::vector<std::byte>> arrays;
  for (const ArrayInfo& info : reader.arrays()) {
    std::vector<std::byte>& data = arrays[info.name];
    data.resize(info.size_bytes());
    reader.read(info, data);
  }
  return arrays;
}

// What happened on rank 0, in order; calls back after each step.
class Watcher : public Observer {
 public:
  explicit Watcher(std::function<void(std::int64_t step)> after) : after_(std::move(after)) {}
  void on_step(const StepEvent& event) override {
    happened.push_back("step " + std::to_string(event.step));
    after_(event.step);
  }
  void on_checkpoint(const CheckpointEvent& event) override {
    happened.push_back("checkpoint " + std::to_string(event.step));
    checkpoints.push_back(event);
  }
  void on_end(const EndEvent&) override { happened.emplace_back("end"); }

  std::vector<std::string> happened;
  std::vector<CheckpointEvent> checkpoints;

 private:
  std::function<void(std::int64_t)> after_;
};

// Trains with rank 0 watched. failed: told the code and the steps done of each rank that ends with
// an error that all share.
void train_watched(const Config& config, int ranks, const fs::path& checkpoints, Watcher& watcher,
                   const std::function<void(ExitCode, std::int64_t, std::string)>& failed = {}) {
  const Registry registry = all_parts();
  run_as_threads(ranks, [&](Communicator& world) {
    at::set_num_threads(1);
    Session session(config, registry, world);
    Trainer& trainer = session.make_trainer(
        {.observer = world.rank() == 0 ? &watcher : nullptr, .checkpoints = checkpoints});
    try {
      trainer.run();
    } catch (const SharedError& error) {
      if (!failed) throw;
      failed(error.code(), trainer.state().step, error.what());
    }
  });
}

TEST(Saver, WhatTrainingChangesMeanwhileDoesNotReachTheFile) {
  const TemporaryDirectory directory;
  HeldCommits held;
  Watcher watcher([&](std::int64_t step) {
    if (step == 5) held.release();
  });
  train_watched(small(6, 3), 3, directory.path() / "behind", watcher);
  ASSERT_EQ(watcher.checkpoints.size(), 2U);
  // Told after step 5 at the earliest; at the latest before the next one is taken.
  const auto at = std::ranges::find(watcher.happened, "checkpoint 3");
  EXPECT_GT(at, std::ranges::find(watcher.happened, "step 5"));
  EXPECT_EQ(watcher.happened.back(), "end");
  EXPECT_EQ(watcher.happened[watcher.happened.size() - 2], "checkpoint 6");

  // A run that ends with step 3 changes nothing after its save.
  const TrainingRun alone =
      train(small(3, 0), {.ranks = 3, .checkpoints = directory.path() / "alone"});
  EXPECT_EQ(arrays_of(watcher.checkpoints[0].path), arrays_of(alone.checkpoints.back().path));
  EXPECT_NE(arrays_of(watcher.checkpoints[0].path), arrays_of(watcher.checkpoints[1].path));
}

TEST(Saver, ASaveWaitsForTheOneBeforeAndTellsHowLong) {
  const TemporaryDirectory directory;
  HeldCommits held;
  Watcher watcher([&](std::int64_t step) {
    if (step == 4) held.release();  // all others are in the second save soon
  });
  train_watched(small(4, 2), 2, directory.path() / "c", watcher);
  ASSERT_EQ(watcher.checkpoints.size(), 2U);
  for (const CheckpointEvent& event : watcher.checkpoints) {
    EXPECT_GT(event.stall_ms, 0);
    EXPECT_LE(event.waited_ms, event.stall_ms);
    EXPECT_LE(event.stall_ms, 1e3 * event.seconds);
    EXPECT_GT(event.size_bytes, 0);
  }
}

TEST(Saver, AFailureToWriteEndsAllRanksAtOneStepWithOneText) {
  const TemporaryDirectory directory;
  HeldCommits held;
  Watcher watcher([&](std::int64_t step) {
    if (step == 4) held.release(ENOSPC);
  });
  std::mutex mutex;
  std::vector<std::int64_t> steps;
  std::set<std::string> texts;
  train_watched(small(1000, 2), 3, directory.path() / "c", watcher,
                [&](ExitCode code, std::int64_t step, std::string text) {
                  const std::lock_guard lock(mutex);
                  EXPECT_EQ(code, ExitCode::kCheckpoint);
                  steps.push_back(step);
                  texts.insert(std::move(text));
                });
  EXPECT_THAT(steps, ElementsAre(steps.at(0), steps.at(0), steps.at(0)));
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_THAT(*texts.begin(), HasSubstr("rank 0: cannot make directory"));
  EXPECT_THAT(*texts.begin(), HasSubstr("(errno 28)"));
  EXPECT_TRUE(watcher.checkpoints.empty());
}

// Its thread sits in the kernel: rank 0 alone says so, and the job has to be ended.
TEST(Saver, AWriteThatHangsIsAnErrorOnceTheTimeoutIsOver) {
  const TemporaryDirectory directory;
  Config config = small(4, 2);
  config.run.timeout = 1;
  HeldCommits held;
  const Registry registry = all_parts();
  std::string text;
  const auto body = [&](Communicator& world) {
    at::set_num_threads(1);
    Session session(config, registry, world);
    Trainer& trainer = session.make_trainer({.checkpoints = directory.path() / "c"});
    try {
      trainer.run();
    } catch (const CheckpointError& error) {
      text = error.what();
      held.release();  // the trainer goes with its thread
      throw;
    }
  };
  EXPECT_THROW(run_as_threads(2, body), CheckpointError);
  EXPECT_THAT(text, HasSubstr("the checkpoint of step 2 has not come on for 1 s (run.timeout)"));
}

// The failure is on its way while nobody looks: the end of the run does.
TEST(Saver, AFailureOfTheLastCheckpointIsFoundAtTheEnd) {
  const TemporaryDirectory directory;
  HeldCommits held;
  Watcher watcher([&](std::int64_t step) {
    if (step == 3) held.release(EIO);
  });
  std::atomic<int> failures = 0;
  train_watched(small(3, 0), 2, directory.path() / "c", watcher,
                [&](ExitCode code, std::int64_t step, const std::string& text) {
                  ++failures;
                  EXPECT_EQ(code, ExitCode::kCheckpoint);
                  EXPECT_EQ(step, 3);
                  EXPECT_THAT(text, HasSubstr("(errno 5)"));
                });
  EXPECT_EQ(failures, 2);
  EXPECT_EQ(std::ranges::find(watcher.happened, "end"), watcher.happened.end());
}

TEST(Saver, RoomIsLookedForBeforeTheFirstStep) {
  const TemporaryDirectory directory;
  Config config = small(1'000'000'000'000, 1);
  config.checkpoint.keep = 1'000'000'000'000;  // times 60 kB
  Watcher watcher([](std::int64_t) { FAIL() << "a step was done"; });
  try {
    train_watched(config, 2, directory.path() / "c", watcher);
    FAIL() << "found room for petabytes";
  } catch (const SharedError& error) {
    EXPECT_EQ(error.code(), ExitCode::kCheckpoint);
    EXPECT_THAT(error.what(), HasSubstr("lower checkpoint.keep"));
  }
}

// Each array of the file, whatever the layout in memory and whoever holds it, is the tensor.
TEST(Saver, TheFileHoldsWhatTheModelHas) {
  for (const bool channels_last : {false, true}) {
    for (const auto& [ranks, ranks_per_node, over] :
         {std::tuple(1, 0, "node"), std::tuple(3, 0, "node"), std::tuple(4, 2, "node"),
          std::tuple(4, 2, "world"), std::tuple(3, 2, "world")}) {
      const TemporaryDirectory directory;
      Config config = small(2, 0);
      config.model.channels_last = channels_last;
      config.parallel.shard_over = over;
      const TrainingRun run = train(config, {.ranks = ranks,
                                             .ranks_per_node = ranks_per_node,
                                             .checkpoints = directory.path() / "c"});
      const auto arrays = arrays_of(run.checkpoints.back().path);
      std::vector<std::vector<std::byte>> found;
      for (const auto& [name, data] : arrays) {
        if (name.starts_with("parameters/")) found.push_back(data);
      }
      std::vector<std::vector<std::byte>> expected;
      for (const at::Tensor& t : run.parameters) {
        const auto* begin = static_cast<const std::byte*>(t.const_data_ptr());
        expected.emplace_back(begin, begin + t.nbytes());
      }
      EXPECT_THAT(found, ::testing::UnorderedElementsAreArray(expected));
      // A shard that went to a wrong place would leave the resumed run another moment.
      Config longer = config;
      longer.train.max_steps = 4;
      const TrainingSetup setup{.ranks = ranks, .ranks_per_node = ranks_per_node};
      TrainingSetup resumed = setup;
      resumed.restore = run.checkpoints.back().path;
      EXPECT_TRUE(bitwise_equal(train(longer, resumed).parameters, train(longer, setup).parameters))
          << ranks << " ranks, over the " << over << ", channels_last " << channels_last;
    }
  }
}

TEST(Saver, ParametersThatDifferBetweenNodesAreNotSaved) {
  const TemporaryDirectory directory;
  const auto disturb = [](const Session& session, Communicator& world) {
    if (world.rank() != 2) return;
    const at::NoGradGuard no_grad;
    session.replica().trained.at(1).tensor.view({-1})[0].add_(1);
  };
  try {
    train(small(1, 0), {.ranks = 4,
                        .ranks_per_node = 2,
                        .checkpoints = directory.path() / "c",
                        .before_run = disturb});
    FAIL() << "saved one of two models";
  } catch (const SharedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("ranks differ in the parameters after step 1"));
    EXPECT_THAT(error.what(), HasSubstr("on rank 0-1"));
    EXPECT_THAT(error.what(), HasSubstr("on rank 2-3"));
  }
  EXPECT_TRUE(list_checkpoints(directory.path() / "c").empty());
}

TEST(Saver, AResumePutsTheLinkToTheBestRight) {
  const TemporaryDirectory directory;
  Config config = small(10, 1);
  config.data.validation_fraction = 0.2;
  config.train.eval_every_epochs = 1;
  const TrainingRun run = train(config, {.checkpoints = directory.path() / "c"});
  const auto checkpoints = directory.path() / "c";
  const std::string best = "step-" + std::string(7, '0') + std::to_string(run.state.best_step % 10);
  ASSERT_LT(run.state.best_step, 10);
  ASSERT_EQ(fs::read_symlink(checkpoints / "best"), best);
  fs::remove(checkpoints / "best");
  fs::create_symlink("step-00000010", checkpoints / "best");  // of a run whose end was damaged
  train(config, {.checkpoints = checkpoints, .restore = checkpoints / "step-00000009"});
  EXPECT_EQ(fs::read_symlink(checkpoints / "best"), best);
}

}  // namespace
}  // namespace trireme::test
