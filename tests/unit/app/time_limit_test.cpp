// SPDX-License-Identifier: Apache-2.0
#include "app/time_limit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "trireme/error.hpp"

namespace trireme {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

constexpr std::int64_t kToday = 1'700'000'000;  // seconds since 1970

// Of a run that started `ago` before now.
TimeLimit limit(double limit, double margin, const std::string& job_end = "", seconds ago = {}) {
  RunConfig config;
  config.time_limit = limit;
  config.time_margin = margin;
  return TimeLimit(config, {.start = TimeLimit::Clock::now() - ago,
                            .today = std::chrono::system_clock::time_point(seconds(kToday)),
                            .job_end = job_end.empty() ? nullptr : job_end.c_str()});
}

std::string in(std::int64_t time) { return std::to_string(kToday + time); }

TEST(TimeLimit, IsNoneByItself) {
  EXPECT_FALSE(limit(0, 120).reached());
  EXPECT_EQ(limit(0, 120).text(), "");
  EXPECT_FALSE(limit(0, 120, "4294967294").reached()) << "Slurm's job without a limit";
  EXPECT_EQ(limit(0, 120, "4294967294").text(), "");
}

TEST(TimeLimit, IsReachedTheMarginBeforeTheEnd) {
  EXPECT_FALSE(limit(1000, 100, "", seconds(800)).reached());
  EXPECT_TRUE(limit(1000, 100, "", seconds(901)).reached());
  EXPECT_FALSE(limit(0, 100, in(1000), seconds(800)).reached());
  EXPECT_TRUE(limit(0, 100, in(1000), seconds(901)).reached());
}

TEST(TimeLimit, IsTheEarlierOfTheRunsAndTheJobs) {
  EXPECT_EQ(limit(1000, 100, in(2000)).text(),
            "stops by itself in 900 seconds, 100 seconds before run.time_limit is over");
  EXPECT_EQ(limit(2000, 100, in(1000)).text(),
            "stops by itself in 900 seconds, 100 seconds before the job ends (SLURM_JOB_END_TIME)");
}

TEST(TimeLimit, ThatLeavesNothingToTrainIsRefused) {
  for (const std::int64_t left : {-5, 0, 100}) {
    try {
      limit(0, 100, in(left));
      ADD_FAILURE() << left;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("nothing could be trained"));
      EXPECT_THAT(error.what(), HasSubstr("SLURM_JOB_END_TIME"));
    }
  }
  EXPECT_NO_THROW(limit(0, 100, in(101)));
}

TEST(TimeLimit, OfATextThatIsNoTimeIsRefused) {
  for (const char* text : {"soon", "12x", "-1", "2026-12-01T14:00:00"})
    EXPECT_THROW(limit(0, 100, text), ConfigError) << text;
}

}  // namespace
}  // namespace trireme
