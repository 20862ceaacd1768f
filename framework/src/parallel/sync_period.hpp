// SPDX-License-Identifier: Apache-2.0
// The calendar of local SGD (parallel.sync_every): after which steps all nodes have the same
// parameters.
#pragma once

#include <cstdint>

namespace trireme {

class SyncPeriod {
 public:
  // Nodes are averaged every so many steps and after the last; 1: they never part.
  SyncPeriod(std::int64_t every, std::int64_t total_steps)
      : every_(every), total_steps_(total_steps) {}

  bool nodes_part() const { return every_ > 1; }
  // steps: done so far, from 1.
  bool together_after(std::int64_t steps) const {
    return steps % every_ == 0 || steps >= total_steps_;
  }
  // After how many steps, fewer than these, they were last together; 0: at the start.
  std::int64_t last_together_before(std::int64_t steps) const {
    return (steps - 1) / every_ * every_;
  }

 private:
  std::int64_t every_, total_steps_;
};

}  // namespace trireme
