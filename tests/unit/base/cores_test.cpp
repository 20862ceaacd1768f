// SPDX-License-Identifier: Apache-2.0
#include "base/cores.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <string>
#include <vector>

namespace trireme::test {
namespace {

TEST(Cores, ThoseOfThisProcessAreListed) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  ASSERT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
  EXPECT_EQ(count_cores(std::vector{core_list()}), CPU_COUNT(&mask));
}

TEST(Cores, ACoreOfTwoListsCountsOnce) {
  EXPECT_EQ(count_cores(std::vector<std::string>{"0,1", "1,12"}), 3);
  EXPECT_EQ(count_cores(std::vector<std::string>{"", ""}), 0);
}

}  // namespace
}  // namespace trireme::test
