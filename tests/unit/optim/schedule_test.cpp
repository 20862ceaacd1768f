// SPDX-License-Identifier: Apache-2.0
#include "optim/schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "trireme/error.hpp"

namespace trireme {
namespace {

constexpr std::int64_t kStepsPerEpoch = 25;
constexpr std::int64_t kTotalSteps = 200;

ScheduleConfig named(const char* name, const char* unit = "steps") {
  ScheduleConfig config;
  config.name = name;
  config.unit = unit;
  return config;
}

Schedule over_the_run(const ScheduleConfig& config) {
  return {config, /*duration=*/0, kStepsPerEpoch, kTotalSteps};
}

TEST(Schedule, ConstantStaysAtOne) {
  const Schedule schedule = over_the_run(named("constant"));
  for (const std::int64_t step : {0, 7, 199, 500}) EXPECT_EQ(schedule.factor(step), 1);
}

TEST(Schedule, LinearIsTheRecipesFormulaBitwise) {
  const Schedule schedule = over_the_run(named("linear"));
  for (std::int64_t step = 0; step < kTotalSteps; ++step) {
    EXPECT_EQ(schedule.factor(step), 1 - static_cast<double>(step) / 200.0);
  }
}

TEST(Schedule, LinearEndsAtTheFinalFractionAndStaysThere) {
  ScheduleConfig config = named("linear");
  config.final_fraction = 0.25;
  config.duration = 8;
  const Schedule schedule = over_the_run(config);
  EXPECT_DOUBLE_EQ(schedule.factor(4), 0.625);
  EXPECT_DOUBLE_EQ(schedule.factor(8), 0.25);
  EXPECT_DOUBLE_EQ(schedule.factor(1000), 0.25);
}

TEST(Schedule, AGroupsOwnDurationWins) {
  const Schedule schedule(named("linear", "epochs"), /*duration=*/3, kStepsPerEpoch, kTotalSteps);
  EXPECT_DOUBLE_EQ(schedule.factor(30), 1 - 30.0 / 75);
  EXPECT_EQ(schedule.factor(75), 0);
  EXPECT_EQ(schedule.factor(199), 0);
}

TEST(Schedule, WarmupRisesToTheRateAndTheRestFollows) {
  ScheduleConfig config = named("linear");
  config.warmup = 4;
  config.duration = 14;
  const Schedule schedule = over_the_run(config);
  EXPECT_DOUBLE_EQ(schedule.factor(0), 0.25);
  EXPECT_DOUBLE_EQ(schedule.factor(3), 1);
  EXPECT_DOUBLE_EQ(schedule.factor(4), 1);
  EXPECT_DOUBLE_EQ(schedule.factor(9), 0.5);
  EXPECT_DOUBLE_EQ(schedule.factor(14), 0);
}

TEST(Schedule, LengthsInEpochsMayBeFractions) {
  ScheduleConfig config = named("constant", "epochs");
  config.warmup = 0.1;  // 2.5 steps
  const Schedule schedule = over_the_run(config);
  EXPECT_DOUBLE_EQ(schedule.factor(0), 0.4);
  EXPECT_DOUBLE_EQ(schedule.factor(1), 0.8);
  EXPECT_DOUBLE_EQ(schedule.factor(2), 1);
  EXPECT_DOUBLE_EQ(schedule.factor(3), 1);
}

TEST(Schedule, AWarmupLongerThanTheRunOnlyRises) {
  ScheduleConfig config = named("cosine");
  config.warmup = 1000;
  const Schedule schedule = over_the_run(config);
  EXPECT_DOUBLE_EQ(schedule.factor(199), 0.2);
  EXPECT_DOUBLE_EQ(schedule.factor(1000), 0);
}

TEST(Schedule, CosineAfterWarmup) {
  ScheduleConfig config = named("cosine", "epochs");
  config.warmup = 1;
  config.final_fraction = 0.1;
  const Schedule schedule = over_the_run(config);
  EXPECT_DOUBLE_EQ(schedule.factor(24), 1);
  for (const std::int64_t step : {25, 60, 199}) {
    const double t = static_cast<double>(step - 25) / 175;
    EXPECT_DOUBLE_EQ(schedule.factor(step), 0.1 + 0.9 * 0.5 * (1 + std::cos(std::numbers::pi * t)));
  }
  EXPECT_DOUBLE_EQ(schedule.factor(200), 0.1);
  EXPECT_DOUBLE_EQ(schedule.factor(300), 0.1);
}

TEST(Schedule, StepDropsByGamma) {
  ScheduleConfig config = named("step", "epochs");
  config.step_size = 2;
  config.gamma = 0.5;
  config.warmup = 0.2;
  const Schedule schedule = over_the_run(config);
  EXPECT_DOUBLE_EQ(schedule.factor(0), 0.2);
  EXPECT_EQ(schedule.factor(49), 1);
  EXPECT_EQ(schedule.factor(50), 0.5);
  EXPECT_EQ(schedule.factor(149), 0.25);
  EXPECT_EQ(schedule.factor(150), 0.125);
  EXPECT_EQ(schedule.factor(100000), schedule.factor(200));
}

// Values of torch.optim.lr_scheduler.OneCycleLR(max_lr=1, total_steps=20, pct_start=0.3,
// div_factor=25, final_div_factor=4) of PyTorch 2.11: steps 0, 2, 5, 6, 12, 19. Its last rate is 1
// / (25 * 4).
TEST(Schedule, OneCycleEqualsTorchs) {
  ScheduleConfig config = named("one_cycle");
  config.initial_fraction = 0.04;
  config.final_fraction = 0.01;
  config.peak = 0.3;
  const Schedule schedule(config, /*duration=*/0, kStepsPerEpoch, /*total_steps=*/20);
  EXPECT_NEAR(schedule.factor(0), 0.04, 1e-16);
  EXPECT_DOUBLE_EQ(schedule.factor(2), 0.3716718427000253);
  EXPECT_DOUBLE_EQ(schedule.factor(5), 1);
  EXPECT_DOUBLE_EQ(schedule.factor(6), 0.9875893165300026);
  EXPECT_DOUBLE_EQ(schedule.factor(12), 0.505);
  EXPECT_DOUBLE_EQ(schedule.factor(19), 0.01);
  EXPECT_DOUBLE_EQ(schedule.factor(25), 0.01);
}

TEST(Schedule, OneCycleFollowsItsWarmup) {
  ScheduleConfig config = named("one_cycle");
  config.unit = "steps";
  config.initial_fraction = 0.5;
  const Schedule alone(config, /*duration=*/0, kStepsPerEpoch, /*total_steps=*/20);
  config.warmup = 5;
  const Schedule warmed(config, /*duration=*/0, kStepsPerEpoch, /*total_steps=*/25);
  for (std::int64_t step = 0; step < 5; ++step) {
    EXPECT_DOUBLE_EQ(warmed.factor(step), 0.5 * static_cast<double>(step + 1) / 5);
  }
  for (std::int64_t step = 0; step < 22; ++step) {
    EXPECT_DOUBLE_EQ(warmed.factor(5 + step), alone.factor(step));
  }
}

}  // namespace
}  // namespace trireme
