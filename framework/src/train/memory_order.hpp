// SPDX-License-Identifier: Apache-2.0
// Where the elements of a dense tensor, counted as they lie in memory, belong in a row-major array
// of its shape. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

class MemoryOrder {
 public:
  // Of a tensor whose elements fill its memory without gaps or overlaps.
  MemoryOrder(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides);

  // Copies elements [begin, begin + count) of the memory, which start at `elements`, into the array
  // of the whole tensor. Neither has to be aligned. element_bytes: 1, 4 or 8.
  void copy(const std::byte* elements, std::int64_t begin, std::int64_t count,
            std::size_t element_bytes, std::byte* array) const;

 private:
  // From the outermost dimension of the memory inwards; neighbours that are neighbours in the array
  // are one.
  struct Dimension {
    std::int64_t size = 1;
    std::int64_t stride = 1;  // in the array
  };
  std::vector<Dimension> dimensions_;
};

}  // namespace trireme
