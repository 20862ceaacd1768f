// SPDX-License-Identifier: Apache-2.0
#include "train/memory_order.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include <ATen/ATen.h>

namespace trireme::test {
namespace {

// Puts a tensor together from pieces of its memory of any length.
void expect_row_major(const at::Tensor& tensor) {
  ASSERT_TRUE(tensor.is_non_overlapping_and_dense());
  const std::size_t bytes = tensor.element_size();
  const at::Tensor expected = tensor.contiguous();
  const MemoryOrder order(tensor.sizes(), tensor.strides());
  for (const std::int64_t piece : {std::int64_t{1}, std::int64_t{5}, std::int64_t{64}}) {
    // One byte further than any alignment.
    std::vector<std::byte> array(tensor.nbytes() + 1);
    for (std::int64_t begin = 0; begin < tensor.numel(); begin += piece) {
      const std::int64_t count = std::min(piece, tensor.numel() - begin);
      order.copy(static_cast<const std::byte*>(tensor.const_data_ptr()) +
                     static_cast<std::size_t>(begin) * bytes,
                 begin, count, bytes, array.data() + 1);
    }
    EXPECT_EQ(std::memcmp(array.data() + 1, expected.const_data_ptr(), tensor.nbytes()), 0)
        << tensor.sizes() << " strides " << tensor.strides() << " in pieces of " << piece;
  }
}

TEST(MemoryOrder, PiecesOfAnyLayoutBecomeRowMajor) {
  for (const auto type : {at::kFloat, at::kDouble, at::kByte, at::kLong}) {
    const auto count = [&](at::IntArrayRef shape) {
      return at::arange(1, 1 + c10::multiply_integers(shape), at::kLong).to(type).reshape(shape);
    };
    expect_row_major(count({4, 3, 5, 2}));
    expect_row_major(count({4, 3, 5, 2}).contiguous(at::MemoryFormat::ChannelsLast));
    expect_row_major(count({4, 7, 1, 1}).contiguous(at::MemoryFormat::ChannelsLast));
    expect_row_major(count({1, 3, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast));
    expect_row_major(count({2, 3, 2, 3, 2}).contiguous(at::MemoryFormat::ChannelsLast3d));
    expect_row_major(count({6, 5}).t());
    expect_row_major(count({2, 3, 4}).permute({1, 2, 0}));
    expect_row_major(count({}));
    expect_row_major(count({1, 1}));
    expect_row_major(count({0, 3}));
  }
}

}  // namespace
}  // namespace trireme::test
