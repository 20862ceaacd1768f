// SPDX-License-Identifier: Apache-2.0
#include "comm/sum.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "trireme/error.hpp"

namespace trireme {
namespace {

// Block by block, so that the running sum stays in the first-level cache and an out may be a part.
constexpr std::size_t kBlockBytes = 8 << 10;

template <class T>
void add(T* __restrict__ total, const T* __restrict__ part, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) total[i] += part[i];
}

template <class T>
void add(T* __restrict__ total, const T* __restrict__ first, const T* __restrict__ second,
         std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) total[i] = first[i] + second[i];
}

template <class T>
void sum_blocks(std::span<const std::byte* const> parts, std::span<std::byte* const> outs,
                std::size_t count) {
  constexpr std::size_t kBlock = kBlockBytes / sizeof(T);
  alignas(64) T total[kBlock];
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t length = std::min(kBlock, count - begin);
    const std::size_t at = begin * sizeof(T);
    const auto part = [&](std::size_t p) { return reinterpret_cast<const T*>(parts[p] + at); };
    if (parts.size() == 1) {
      std::memcpy(total, part(0), length * sizeof(T));
    } else {
      add(total, part(0), part(1), length);
    }
    for (std::size_t p = 2; p < parts.size(); ++p) add(total, part(p), length);
    for (std::byte* out : outs) std::memcpy(out + at, total, length * sizeof(T));
  }
}

}  // namespace

void sum_in_order(DType dtype, std::span<const std::byte* const> parts,
                  std::span<std::byte* const> outs, std::size_t count) {
  switch (dtype) {
    case DType::kF32:
      return sum_blocks<float>(parts, outs, count);
    case DType::kF64:
      return sum_blocks<double>(parts, outs, count);
    case DType::kI64:  // unsigned: overflow wraps instead of being undefined
      return sum_blocks<std::uint64_t>(parts, outs, count);
    case DType::kU8:
      break;
  }
  TRIREME_ASSERT(false, "u8 has no sum");
}

}  // namespace trireme
