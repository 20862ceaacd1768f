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

}  // namespace
}  // namespace trireme::test
