// SPDX-License-Identifier: Apache-2.0
#include "comm/call.hpp"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Call, IsDescribedBySequenceCountAndType) {
  float data = 0;
  EXPECT_EQ(
      describe(
          {.kind = Collective::kAllReduce, .sequence = 17, .data = {&data, 1024, DType::kF32}}),
      "all_reduce #17 (1024 f32)");
  EXPECT_EQ(describe({.kind = Collective::kReduceScatter, .data = {&data, 1, DType::kF64}}),
            "reduce_scatter #0 (1 f64)");
  EXPECT_EQ(describe({.kind = Collective::kAllGather, .data = {&data, 1, DType::kI64}}),
            "all_gather #0 (1 i64)");
  EXPECT_EQ(describe({.kind = Collective::kBroadcast, .data = {&data, 1, DType::kU8}}),
            "broadcast #0 (1 u8)");
  EXPECT_EQ(describe({.kind = Collective::kBarrier, .sequence = 3}), "barrier #3");
  EXPECT_EQ(describe({.kind = Collective::kExchange, .bytes = "abc"}), "exchange #0 (3 bytes)");
}

TEST(Call, EvenOffsetsGiveTheRestToTheFirstRanks) {
  EXPECT_EQ(even_offsets(8, 3), (std::vector<std::size_t>{0, 3, 6, 8}));
  EXPECT_EQ(even_offsets(2, 4), (std::vector<std::size_t>{0, 1, 2, 2, 2}));
  EXPECT_EQ(even_offsets(0, 2), (std::vector<std::size_t>{0, 0, 0}));
  const std::size_t large = std::size_t{1} << 40;
  EXPECT_EQ(even_offsets(large, 2), (std::vector<std::size_t>{0, large / 2, large}));
}

}  // namespace
}  // namespace trireme
