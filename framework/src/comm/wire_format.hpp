// SPDX-License-Identifier: Apache-2.0
// Half-width numbers on the wire between nodes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trireme/communicator.hpp"

namespace trireme {

// Bytes of one element on the wire.
std::size_t wire_size(WireType type, DType dtype);

// Rounds to nearest even; kF16 or kBF16. residual: [count] or null; added before and left with what
// rounding took off. A NaN stays one, an infinity too; other values beyond the largest of the type
// become that and are counted, where counts is not null. IEEE 754 binary16, and its binary32 cut to
// 16 bits.
void encode(WireType type, const float* values, float* residual, std::size_t count,
            std::uint16_t* wire, WireCounts* counts);
void decode(WireType type, const std::uint16_t* wire, std::size_t count, float* values);

}  // namespace trireme
