// SPDX-License-Identifier: Apache-2.0
#include "base/philox.hpp"

#include <gtest/gtest.h>

#include <set>

namespace trireme {
namespace {

using Words = std::array<std::uint32_t, 4>;

// kat_vectors of Random123, lines "philox4x32 10".
TEST(Philox, GivesThePublishedKnownAnswers) {
  EXPECT_EQ(philox4x32(0, {0, 0, 0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32(0xffffffffffffffff, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, DrawPacksItsCounterAsTheHeaderSays) {
  EXPECT_EQ(draw(7, Stream::kCrop, 0x0012345689abcdef, 0xfedcba9876543210),
            philox4x32(7, {0x76543210, 0xfedcba98, 0x89abcdef, 3U << 24 | 0x123456}));
}

TEST(Philox, DrawsForDifferentThingsDiffer) {
  std::set<Words> seen;
  for (const std::uint64_t a : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 55}) {
    for (const std::uint64_t b : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 63}) {
      for (const Stream stream : {Stream::kOrder, Stream::kFlip}) {
        seen.insert(draw(1, stream, a, b));
        seen.insert(draw(2, stream, a, b));
      }
    }
  }
  EXPECT_EQ(seen.size(), 36U);
}

TEST(Philox, UnitAndBelowStayInRange) {
  EXPECT_EQ(unit(0), 0.0);
  EXPECT_EQ(unit(0x80000000), 0.5);
  EXPECT_LT(unit(0xffffffff), 1.0);
  EXPECT_EQ(below(0, 5), 0U);
  EXPECT_EQ(below(0xffffffff, 5), 4U);
  EXPECT_EQ(below(0xffffffff, 1), 0U);
  EXPECT_EQ(below(0xfedcba98, std::uint64_t{1} << 32), 0xfedcba98U);
}

}  // namespace
}  // namespace trireme
