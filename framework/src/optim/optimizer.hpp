// SPDX-License-Identifier: Apache-2.0
// Update rules on flat shards. A rule holds hyperparameters only; parameters, gradients and slots
// are handed in, so that sharding and checkpoints need to know nothing about the rule.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "config/config.hpp"

namespace trireme {

// One update of one run of parameters that share a rule and a rate.
struct Update {
  // Elementwise rules: a flat piece (n) of a bucket, any length, contiguous; how a bucket is cut
  // does not change a bit of the result where the cuts lie at multiples of 64 bytes. Matrix rules:
  // one whole parameter in its logical shape (rows, ...), any strides.
  at::Tensor parameter, gradient;
  std::vector<at::Tensor> slots;  // [slot], shaped like parameter; zero before the first update
  double lr = 0;                  // scheduled
  std::int64_t step = 1;          // 1-based
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual std::vector<std::string> slots()
      const = 0;  // names in the checkpoint: "momentum"; "exp_avg", "exp_avg_sq"
  virtual bool needs_whole_parameters() const { return false; }
  // Work of one update for a parameter of this shape, in arbitrary units: whole parameters are
  // dealt to ranks by it.
  virtual double cost(const std::vector<std::int64_t>& shape) const = 0;
  // Changes parameter and slots; the gradient stays. No autograd is recorded.
  virtual void step(Update& update) const = 0;
};

// The rule of one parameter group: OptimizerConfig with the group's own values in place.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config);

// A parameter group with everything in place.
struct ParameterGroup {
  OptimizerConfig settings;  // groups is empty
  double duration = 0;       // of its schedule, in schedule.unit; 0: the schedule's own
  bool frozen = false;
  std::string match;  // "*" for the rest
};

struct ResolvedGroups {
  std::vector<ParameterGroup> groups;  // the configured ones in order, then the rest
  std::vector<int> group_of;           // [parameter]
};

// First match wins; '*' matches any characters, '?' one. Throws one ConfigError with all errors: a
// pattern that matches no parameter (with the nearest names), or only parameters of earlier groups;
// a matrix rule for a parameter of fewer than two dimensions that is not frozen, by its group or by
// frozen[parameter] (empty: none).
ResolvedGroups resolve_groups(const OptimizerConfig& config, const std::vector<std::string>& names,
                              const std::vector<std::vector<std::int64_t>>& shapes,
                              const std::vector<bool>& frozen = {});

}  // namespace trireme
