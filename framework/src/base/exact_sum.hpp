// SPDX-License-Identifier: Apache-2.0
// A sum of doubles without rounding, so that neither their order nor their grouping matters.
// U. Kulisch, W. Miranker: Computer Arithmetic in Theory and Practice (1981).
#pragma once

#include <array>
#include <cstdint>

namespace trireme {

// The sum is fixed-point: limb i counts units of 2^(32 i - kUnderPoint). Adding the limbs of two
// sums one by one adds the sums; there is room for 2^30 numbers in all. Only numbers that are
// finite and not negative; what is not finite has to travel beside it.
class ExactSum {
 public:
  static constexpr int kUnderPoint = 1088;  // bits, beyond 2^-1074
  using Limbs = std::array<std::int64_t, 68>;

  void add(double value);
  // The sum, rounded; a function of its value alone.
  double value() const;
  Limbs& limbs() { return limbs_; }

 private:
  Limbs limbs_ = {};
};

}  // namespace trireme
