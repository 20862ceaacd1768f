// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "app/estimate.hpp"
#include "app/resume.hpp"
#include "comm/local.hpp"
#include "support/training.hpp"

namespace trireme::test {
namespace {

const char* const kYaml = R"(
model: {name: mlp, hidden: [8]}
data: {name: synthetic, samples: 50, classes: 3, shape: [6]}
optimizer: {name: adamw, lr: 0.1, groups: [{match: "*bias", frozen: true}]}
train: {epochs: 4, global_batch: 8}
)";

TEST(ResumeRules, LengthCadenceAndLoggingMayChange) {
  const Config before = config_of(kYaml);
  Config after = before;
  after.run.timeout = 7;
  after.data.workers = 3;
  after.data.prefetch = 5;
  after.train.epochs = 9;
  after.train.max_steps = 100;
  after.train.eval_every_epochs = 2;
  after.train.patience = 3;
  after.checkpoint.every_steps = 10;
  after.checkpoint.keep = 5;
  after.log.every_steps = 10;
  after.log.console_seconds = 1;
  EXPECT_NO_THROW(require_resumable(before, after));
}

TEST(ResumeRules, EverythingElseIsRefusedWithOldAndNew) {
  const Config before = config_of(kYaml);
  Config after = before;
  after.optimizer.lr = 0.25;
  after.run.seed = 17;
  try {
    require_resumable(before, after);
    FAIL() << "another rate was accepted";
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("optimizer.lr: 0.1 -> 0.25"), std::string::npos) << text;
    EXPECT_NE(text.find("run.seed: 0 -> 17"), std::string::npos) << text;
    EXPECT_NE(text.find("--allow-changes"), std::string::npos) << text;
  }
}

TEST(Estimate, CountsParametersMemoryAndSteps) {
  const auto world = make_local_communicator();
  const Registry registry = all_parts();
  const Session session(config_of(kYaml), registry, *world);
  const Estimate alone = estimate(session, 1);
  EXPECT_EQ(alone.trained_parameters, 6 * 8 + 8 * 3);
  EXPECT_EQ(alone.frozen_parameters, 8 + 3);
  EXPECT_EQ(alone.memory_bytes, 4 * (2 * 72 + 11 + 2 * 72));
  EXPECT_EQ(alone.checkpoint_bytes, 4 * (72 + 11 + 2 * 72));
  EXPECT_EQ(estimate(session, 2).memory_bytes, 4 * (2 * 72 + 11 + 72))
      << "the optimizer's state is sharded";
  EXPECT_EQ(alone.length.total_steps, 4 * 7);
}

TEST(Estimate, WritesBytesAsPeopleDo) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1250), "1.25 kB");
  EXPECT_EQ(human_bytes(310'000), "310 kB");
  EXPECT_EQ(human_bytes(15'790'000), "15.79 MB");
}

}  // namespace
}  // namespace trireme::test
