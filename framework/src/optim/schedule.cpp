// SPDX-License-Identifier: Apache-2.0
#include "optim/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "trireme/error.hpp"

namespace trireme {
namespace {

// From `first` at t = 0 to `last` at t = 1 along half a cosine.
double half_cosine(double first, double last, double t) {
  return last + (first - last) * (1 + std::cos(std::numbers::pi * t)) / 2;
}

}  // namespace

Schedule::Schedule(const ScheduleConfig& config, double duration, std::int64_t steps_per_epoch,
                   std::int64_t total_steps)
    : config_(config) {
  const double unit = config.unit == "epochs" ? static_cast<double>(steps_per_epoch) : 1.0;
  const double length = duration > 0 ? duration : config.duration;
  warmup_steps_ = config.warmup * unit;
  duration_steps_ = length > 0 ? length * unit : static_cast<double>(total_steps);
  drop_steps_ = config.step_size * unit;
}

double Schedule::factor(std::int64_t step) const {
  double now = static_cast<double>(step);
  if (now < warmup_steps_) {
    const double top = config_.name == "one_cycle" ? config_.initial_fraction : 1;
    return top * std::min(1.0, (now + 1) / warmup_steps_);
  }
  now = std::min(now, duration_steps_);
  if (config_.name == "constant") return 1;
  if (config_.name == "one_cycle") return one_cycle(now - warmup_steps_);
  if (config_.name == "step") return std::pow(config_.gamma, std::floor(now / drop_steps_));
  // A warm-up as long as the whole duration leaves nothing to fall along: the end is reached at
  // once.
  const double rest = duration_steps_ - warmup_steps_;
  const double t = rest > 0 ? (now - warmup_steps_) / rest : 1;
  const double last = config_.final_fraction;
  if (config_.name == "linear") return 1 - (1 - last) * t;
  TRIREME_ASSERT(config_.name == "cosine", "no schedule is called '" + config_.name + "'");
  return half_cosine(1, last, t);
}

double Schedule::one_cycle(double step) const {
  const double length = duration_steps_ - warmup_steps_;
  const double top = config_.peak * length - 1, end = length - 1;
  if (step < top) return half_cosine(config_.initial_fraction, 1, step / top);
  if (step >= end) return config_.final_fraction;
  return half_cosine(1, config_.final_fraction, (step - top) / (end - top));
}

}  // namespace trireme
