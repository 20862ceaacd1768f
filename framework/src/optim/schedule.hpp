// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "config/config.hpp"

namespace trireme {

// Rate of one group at one step over its base rate: a pure function of the step, so a resumed run has the same rates.
class Schedule {
 public:
  // duration overrides config.duration (in config.unit) where > 0. total_steps: of the whole run.
  Schedule(const ScheduleConfig& config, double duration, std::int64_t steps_per_epoch,
           std::int64_t total_steps);
  // step: 0-based, the number of updates done before. Within warm-up (step + 1) / (warmup_steps + 1)... documented in
  // schedule.cpp and CONFIG reference; past the end the last value stays.
  double factor(std::int64_t step) const;

 private:
  ScheduleConfig config_;
  double warmup_steps_ = 0, duration_steps_ = 0, step_size_steps_ = 0;
};

}  // namespace trireme
