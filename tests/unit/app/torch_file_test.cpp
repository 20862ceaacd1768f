// SPDX-License-Identifier: Apache-2.0
#include "app/torch_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using ::testing::HasSubstr;

// Numbers beyond four bytes are eight, little-endian (LONG1 of pickle): what no test can afford to
// write.
TEST(TorchFile, ArraysBeyondTwoToTheThirtyOneElementsHaveTheirTrueShape) {
  const std::string pickle = pickle_state_dict({{"w", DType::kU8, {3'000'000'000, 2}}});
  using std::string_literals::operator""s;
  EXPECT_THAT(pickle, HasSubstr("X\3\0\0\0cpu\x8a\x08\x00\xbc\xa0\x65\x01\x00\x00\x00tQ"s));  // 6e9
  EXPECT_THAT(pickle, HasSubstr("(\x8a\x08\x00\x5e\xd0\xb2\x00\x00\x00\x00J\2\0\0\0t"s)) << "shape";
  EXPECT_THAT(pickle, HasSubstr("(J\2\0\0\0J\1\0\0\0t"s)) << "strides";
}

TEST(TorchFile, StridesOfEmptyArraysAreThoseOfPyTorch) {
  using std::string_literals::operator""s;
  EXPECT_THAT(pickle_state_dict({{"w", DType::kF32, {2, 0, 3}}}),
              HasSubstr("(J\3\0\0\0J\3\0\0\0J\1\0\0\0t"s));
}

}  // namespace
}  // namespace trireme
