// SPDX-License-Identifier: Apache-2.0
#include "trireme/options.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace trireme {
namespace {

TEST(Options, DefaultsHoldEveryDeclaredOption) {
  const Options options = default_options({{"width", std::int64_t{8}, "Width."},
                                           {"rate", 0.5, "Rate."},
                                           {"kind", std::string("a"), "Kind."}});
  EXPECT_EQ(options.get<std::int64_t>("width"), 8);
  EXPECT_EQ(options.get<double>("rate"), 0.5);
  EXPECT_EQ(options.get<std::string>("kind"), "a");
  EXPECT_EQ(options.values().size(), 3u);
}

TEST(Options, UndeclaredNamesAndOtherTypesAreDefects) {
  const Options options = default_options({{"width", std::int64_t{8}, "Width."}});
  EXPECT_THROW(options.get<std::int64_t>("height"), InternalError);
  EXPECT_THROW(options.get<double>("width"), InternalError);
}

}  // namespace
}  // namespace trireme
