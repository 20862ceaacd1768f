// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "trireme/communicator.hpp"
#include "trireme/registry.hpp"

namespace trireme {

// How two arrays of one type and length differ.
struct ElementDifference {
  std::size_t elements = 0;  // that are not the same bits; 0.0 and -0.0 are not
  double largest = 0;  // |a - b|; NaN where an element is one on one side or both, in other bits
};
ElementDifference compare_elements(std::span<const std::byte> a, std::span<const std::byte> b,
                                   DType dtype);

struct CheckpointDiff {
  std::string text;    // lines: arrays, training state and configuration that differ, a -> b
  bool equal = false;  // arrays and training state; the configuration does not count
};
// Holds one array of each in memory at a time. Throws CheckpointError where one does not verify.
CheckpointDiff diff_checkpoints(const std::filesystem::path& a, const std::filesystem::path& b,
                                const Registry& registry);

}  // namespace trireme
