// SPDX-License-Identifier: Apache-2.0
#include "app/length_checks.hpp"

#include <gtest/gtest.h>

#include "trireme/error.hpp"

namespace trireme::test {
namespace {

constexpr RunLength kLength{.steps_per_epoch = 10, .total_steps = 25};

TEST(LengthChecks, PowerSgdHasToStartBeforeTheLastStepIsOver) {
  Config config;
  config.parallel.powersgd_start = 25;
  EXPECT_NO_THROW(require_effect(config, kLength)) << "another compression";
  config.parallel.compression = "powersgd";
  config.parallel.powersgd_start = 24;
  EXPECT_NO_THROW(require_effect(config, kLength));
  config.parallel.powersgd_start = 25;
  try {
    require_effect(config, kLength);
    FAIL() << "it starts after the last step";
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("parallel.powersgd_start: 25 has no effect: the run has 25 steps"),
              std::string::npos)
        << text;
  }
}

TEST(LengthChecks, AveragesLessThanOnceAnEpochAreWorthALine) {
  Config config;
  const auto warning = [&](std::int64_t every) {
    config.parallel.sync_every = every;
    return warning_of_rare_averages(config, kLength);
  };
  EXPECT_EQ(warning(1), "");
  EXPECT_EQ(warning(10), "");
  EXPECT_EQ(warning(11),
            "parallel.sync_every 11 is more than the 10 steps of an epoch: nodes are averaged that "
            "rarely, and after the last step; evaluations and checkpoints wait for an "
            "average");
  EXPECT_EQ(warning(26),
            "parallel.sync_every 26 is more than the 25 steps of the run: nodes are averaged after "
            "the last step only; evaluations and checkpoints wait for an average");
}

TEST(LengthChecks, ALongRunThatSavesNothingOnItsWayIsWorthALine) {
  constexpr RunLength kLong{.steps_per_epoch = 100, .total_steps = 1000};
  Config config;
  EXPECT_EQ(warning_of_no_checkpoint(config, kLong, false),
            "nothing is saved before the last of 1000 steps: a kill loses the whole run; set "
            "checkpoint.every_steps");
  EXPECT_EQ(warning_of_no_checkpoint(config, {.steps_per_epoch = 100, .total_steps = 999}, false),
            "");
  EXPECT_EQ(warning_of_no_checkpoint(config, kLong, true), "") << "the best is saved";
  config.train.eval_every_epochs = 0;
  EXPECT_NE(warning_of_no_checkpoint(config, kLong, true), "") << "it is measured at the end only";
  config.train.eval_every_epochs = 10;
  EXPECT_NE(warning_of_no_checkpoint(config, kLong, true), "") << "after the last step";
  config.checkpoint.every_steps = 1000;
  EXPECT_NE(warning_of_no_checkpoint(config, kLong, true), "") << "after the last step";
  config.checkpoint.every_steps = 999;
  EXPECT_EQ(warning_of_no_checkpoint(config, kLong, false), "");
}

}  // namespace
}  // namespace trireme::test
