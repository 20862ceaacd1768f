// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10, a counter-based random generator: a pure function of key and counter, without
// state. J. Salmon, M. Moraes, R. Dror, D. Shaw: Parallel Random Numbers: As Easy as 1, 2, 3 (SC
// 2011).
#pragma once

#include <array>
#include <cstdint>

namespace trireme {

// What a number is drawn for; keeps the streams of one seed apart. Values fit in 8 bits and never
// change: resumed runs rely on them.
enum class Stream : std::uint32_t {
  kOrder = 1,
  kFlip,
  kCrop,
  kHoldOut,
  kDropout,
  kSynthetic,
  kPowerSgd
};

// Four 32-bit words for this key (seed) and counter.
std::array<std::uint32_t, 4> philox4x32(std::uint64_t key,
                                        const std::array<std::uint32_t, 4>& counter);

// The same, with a counter made of what is drawn for: the stream and two numbers (epoch and sample;
// step and element; ...). The counter's words are { b low, b high, a low, stream << 24 | a high },
// so distinct (stream, a < 2^56, b) never share one.
std::array<std::uint32_t, 4> draw(std::uint64_t seed, Stream stream, std::uint64_t a,
                                  std::uint64_t b);

// Uniform in [0, 1) from 32 bits, exact in double.
inline double unit(std::uint32_t bits) { return bits * 0x1p-32; }

// Uniform in 0 .. n-1 from 32 bits, n <= 2^32 (multiply-shift; the bias is below n / 2^32).
inline std::uint32_t below(std::uint32_t bits, std::uint64_t n) {
  return static_cast<std::uint32_t>((bits * n) >> 32);
}

}  // namespace trireme
