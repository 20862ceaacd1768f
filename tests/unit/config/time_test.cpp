// SPDX-License-Identifier: Apache-2.0
// Keys that are lengths of time: seconds, or texts such as 1h30m.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "unit/config/support.hpp"

namespace trireme {
namespace {

using testing::HasSubstr;

double limit_of(const std::string& text) {
  return read(kValid, {"run.time_margin=0", "run.time_limit=" + text}).config.run.time_limit;
}

TEST(ConfigTime, IsSecondsOrATextWithUnits) {
  EXPECT_EQ(limit_of("0"), 0);
  EXPECT_EQ(limit_of("90"), 90);
  EXPECT_EQ(limit_of("0.5"), 0.5);
  EXPECT_EQ(limit_of("45s"), 45);
  EXPECT_EQ(limit_of("90m"), 5400);
  EXPECT_EQ(limit_of("1h30m"), 5400);
  EXPECT_EQ(limit_of("2d3h4m5s"), 2 * 86400 + 3 * 3600 + 4 * 60 + 5);
}

TEST(ConfigTime, RefusesWhatMayMeanSeveralThings) {
  for (const char* text : {"1h30", "30m1h", "1h1h", "h", "1:30", "1 h", "1H", "01h", "1.5h", "-1h",
                           "99999999999h", "1hm", "1w"}) {
    EXPECT_THAT(errors_of(kValid, {std::string("run.time_limit=") + text}),
                HasSubstr("in seconds, or a time such as 1h30m"))
        << text;
  }
  EXPECT_THAT(errors_of(kValid, {"run.time_limit=2000d"}), HasSubstr("out of range"));
}

TEST(ConfigTime, ALimitHasToBeLongerThanItsMargin) {
  EXPECT_THAT(errors_of(kValid, {"run.time_limit=2m"}),
              HasSubstr("run.time_limit: 120 s leaves no time to train; expected more than "
                        "run.time_margin (120 s)"));
  EXPECT_EQ(errors_of(kValid, {"run.time_limit=121"}), "");
}

}  // namespace
}  // namespace trireme
