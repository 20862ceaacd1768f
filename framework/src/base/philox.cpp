// SPDX-License-Identifier: Apache-2.0
#include "base/philox.hpp"

namespace trireme {
namespace {

// The constants of the paper (section 4.3): multipliers and Weyl increments of the 4x32 variant.
constexpr std::uint64_t kMultiplier0 = 0xD2511F53;
constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::uint64_t key,
                                        const std::array<std::uint32_t, 4>& counter) {
  std::array<std::uint32_t, 4> x = counter;
  std::uint32_t key0 = low(key);
  std::uint32_t key1 = high(key);
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = kMultiplier0 * x[0];
    const std::uint64_t product1 = kMultiplier1 * x[2];
    x = {high(product1) ^ x[1] ^ key0, low(product1), high(product0) ^ x[3] ^ key1, low(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return x;
}

std::array<std::uint32_t, 4> draw(std::uint64_t seed, Stream stream, std::uint64_t a,
                                  std::uint64_t b) {
  const std::uint32_t top = static_cast<std::uint32_t>(stream) << 24 | (high(a) & 0xFFFFFFU);
  return philox4x32(seed, {low(b), high(b), low(a), top});
}

}  // namespace trireme
