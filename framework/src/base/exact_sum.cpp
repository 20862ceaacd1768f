// SPDX-License-Identifier: Apache-2.0
#include "base/exact_sum.hpp"

#include <bit>
#include <cmath>

#include "trireme/error.hpp"

namespace trireme {
namespace {

constexpr int kLimbBits = 32;
constexpr std::uint64_t kLimbMask = 0xffffffff;

}  // namespace

void ExactSum::add(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const int exponent = static_cast<int>(bits >> 52);
  TRIREME_ASSERT(exponent < 0x7ff, "only finite numbers that are not negative add up");
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
  const std::uint64_t mantissa = exponent == 0 ? fraction : fraction | std::uint64_t{1} << 52;
  // value = mantissa * 2^(max(exponent, 1) - 1075)
  const int shift = (exponent == 0 ? 1 : exponent) - 1075 + kUnderPoint;
  const auto limb = static_cast<std::size_t>(shift / kLimbBits);
  const int within = shift % kLimbBits;
  const std::uint64_t low = mantissa << within;
  const std::uint64_t high = within == 0 ? 0 : mantissa >> (64 - within);
  limbs_[limb] += static_cast<std::int64_t>(low & kLimbMask);
  limbs_[limb + 1] += static_cast<std::int64_t>(low >> kLimbBits);
  limbs_[limb + 2] += static_cast<std::int64_t>(high);
}

double ExactSum::value() const {
  std::array<std::uint64_t, std::tuple_size_v<Limbs>> digits = {};
  std::uint64_t carry = 0;
  for (std::size_t i = 0; i < limbs_.size(); ++i) {
    const std::uint64_t sum = static_cast<std::uint64_t>(limbs_[i]) + carry;
    digits[i] = sum & kLimbMask;
    carry = sum >> kLimbBits;
  }
  // From the largest digit down; what four of them cannot tell is beyond a double.
  std::size_t top = digits.size();
  while (top > 0 && digits[top - 1] == 0) --top;
  double value = 0;
  for (std::size_t i = top > 4 ? top - 4 : 0; i < top; ++i) {  // the small ones first
    value +=
        std::ldexp(static_cast<double>(digits[i]), static_cast<int>(i) * kLimbBits - kUnderPoint);
  }
  return value;
}

}  // namespace trireme
