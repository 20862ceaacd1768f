// SPDX-License-Identifier: Apache-2.0
#include "comm/sum.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "trireme/error.hpp"

namespace trireme {
namespace {

template <class T>
std::vector<const std::byte*> bytes_of(const std::vector<std::vector<T>>& parts) {
  std::vector<const std::byte*> bytes;
  for (const auto& part : parts) bytes.push_back(reinterpret_cast<const std::byte*>(part.data()));
  return bytes;
}

TEST(SumInOrder, AddsFromTheFirstPartOn) {
  const std::vector<std::vector<float>> parts = {{1e8f}, {-1e8f}, {1.0f}};
  float sum = 0;
  sum_in_order(DType::kF32, bytes_of(parts), reinterpret_cast<std::byte*>(&sum), 1);
  EXPECT_EQ(sum, 1.0f);  // 0 in the other direction
}

TEST(SumInOrder, MayWriteIntoAnyOfItsPartsAcrossBlocks) {
  constexpr std::size_t kCount = 10007;  // several blocks and a rest
  for (std::size_t out = 0; out < 3; ++out) {
    std::vector<std::vector<double>> parts(3, std::vector<double>(kCount));
    for (std::size_t p = 0; p < 3; ++p) {
      for (std::size_t i = 0; i < kCount; ++i) parts[p][i] = double((p + 1) * i);
    }
    sum_in_order(DType::kF64, bytes_of(parts), reinterpret_cast<std::byte*>(parts[out].data()),
                 kCount);
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(parts[out][i], 6.0 * double(i)) << i;
  }
}

TEST(SumInOrder, WritesToSeveralPlacesAcrossBlocks) {
  constexpr std::size_t kCount = 10007;
  std::vector<std::vector<float>> parts(2, std::vector<float>(kCount));
  for (std::size_t i = 0; i < kCount; ++i) parts[0][i] = 2 * (parts[1][i] = float(i));
  std::vector<float> elsewhere(kCount);
  const std::vector<std::byte*> outs = {reinterpret_cast<std::byte*>(parts[1].data()),
                                        reinterpret_cast<std::byte*>(elsewhere.data()),
                                        reinterpret_cast<std::byte*>(parts[0].data())};
  sum_in_order(DType::kF32, bytes_of(parts), outs, kCount);
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(parts[0][i], 3 * float(i)) << i;
  EXPECT_EQ(parts[1], parts[0]);
  EXPECT_EQ(elsewhere, parts[0]);
}

TEST(SumInOrder, OnePartIsItsOwnSum) {
  std::vector<std::vector<std::int64_t>> parts = {{3, -4}};
  sum_in_order(DType::kI64, bytes_of(parts), reinterpret_cast<std::byte*>(parts[0].data()), 2);
  EXPECT_EQ(parts[0], (std::vector<std::int64_t>{3, -4}));
}

TEST(SumInOrder, BytesHaveNoSum) {
  const std::vector<std::vector<unsigned char>> parts = {{1}};
  std::byte out = {};
  EXPECT_THROW(sum_in_order(DType::kU8, bytes_of(parts), &out, 1), InternalError);
}

}  // namespace
}  // namespace trireme
