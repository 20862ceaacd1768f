// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "config/config.hpp"

namespace trireme {

// The rate of one group at one step over its base rate: a pure function of the step, so a resumed
// run has the same rates.
//
// With s the number of updates done before (0-based), W the warm-up, D the duration (warm-up
// included) and F the final fraction, lengths in steps (an epoch counts steps_per_epoch; lengths
// may be fractions):
//   s < W      first * min(1, (s + 1) / W), where first is what follows: 1, or one_cycle's
//              initial_fraction; D is the whole run where neither group nor schedule sets it
//   constant   1
//   step       gamma ^ floor(s / step_size): drops are counted from the start and end at D
//   linear     1 - (1 - F) t, with t = (s - W) / (D - W)
//   cosine     F + (1 - F) (1 + cos(pi t)) / 2
//   one_cycle  with s and D counted from W: from initial_fraction to 1 at s = peak * D - 1, then to
//              F at s = D - 1, both along half a cosine (torch.optim.lr_scheduler.OneCycleLR)
// From s = D on the value at D stays.
class Schedule {
 public:
  // duration replaces config.duration (in config.unit) where > 0. total_steps: of the whole run.
  Schedule(const ScheduleConfig& config, double duration, std::int64_t steps_per_epoch,
           std::int64_t total_steps);
  double factor(std::int64_t step) const;

 private:
  double one_cycle(double step) const;

  ScheduleConfig config_;
  double warmup_steps_ = 0;
  double duration_steps_ = 0;
  double drop_steps_ = 0;  // between two drops of "step"
};

}  // namespace trireme
