// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme {

// FNV-1a, 64 bit: the same on all machines, unlike std::hash.
inline std::uint64_t fnv1a(std::span<const std::byte> bytes) {
  std::uint64_t value = 0xcbf29ce484222325;
  for (const std::byte byte : bytes) {
    value = (value ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3;
  }
  return value;
}

}  // namespace trireme
