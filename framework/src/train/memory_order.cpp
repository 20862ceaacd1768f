// SPDX-License-Identifier: Apache-2.0
#include "train/memory_order.hpp"

#include <algorithm>
#include <cstring>

#include "trireme/error.hpp"

namespace trireme {
namespace {

template <std::size_t kBytes>
void copy_apart(const std::byte* from, std::int64_t count, std::int64_t stride, std::byte* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(to + static_cast<std::size_t>(i * stride) * kBytes,
                from + static_cast<std::size_t>(i) * kBytes, kBytes);
  }
}

void copy_run(const std::byte* from, std::int64_t count, std::int64_t stride,
              std::size_t element_bytes, std::byte* to) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * element_bytes);
    return;
  }
  switch (element_bytes) {
    case 1:
      return copy_apart<1>(from, count, stride, to);
    case 4:
      return copy_apart<4>(from, count, stride, to);
    case 8:
      return copy_apart<8>(from, count, stride, to);
    default:
      throw InternalError("elements of " + std::to_string(element_bytes) + " bytes");
  }
}

}  // namespace

MemoryOrder::MemoryOrder(std::span<const std::int64_t> sizes,
                         std::span<const std::int64_t> strides) {
  struct Outer {
    std::int64_t memory_stride = 1;
    Dimension dimension;
  };
  std::vector<Outer> order;
  std::int64_t row_stride = 1;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] != 1) order.push_back({strides[d], {sizes[d], row_stride}});
    row_stride *= sizes[d];
  }
  std::ranges::stable_sort(order, std::greater(), &Outer::memory_stride);
  for (const Outer& next : order) {
    if (!dimensions_.empty() &&
        dimensions_.back().stride == next.dimension.size * next.dimension.stride) {
      dimensions_.back() = {dimensions_.back().size * next.dimension.size, next.dimension.stride};
    } else {
      dimensions_.push_back(next.dimension);
    }
  }
  if (dimensions_.empty()) dimensions_.emplace_back();  // a scalar
}

void MemoryOrder::copy(const std::byte* elements, std::int64_t begin, std::int64_t count,
                       std::size_t element_bytes, std::byte* array) const {
  const Dimension inner = dimensions_.back();
  while (count > 0) {
    std::int64_t rest = begin / inner.size, place = begin % inner.size * inner.stride;
    for (std::size_t d = dimensions_.size() - 1; d-- > 0;) {
      place += rest % dimensions_[d].size * dimensions_[d].stride;
      rest /= dimensions_[d].size;
    }
    const std::int64_t run = std::min(count, inner.size - begin % inner.size);
    copy_run(elements, run, inner.stride, element_bytes,
             array + static_cast<std::size_t>(place) * element_bytes);
    elements += static_cast<std::size_t>(run) * element_bytes;
    begin += run;
    count -= run;
  }
}

}  // namespace trireme
