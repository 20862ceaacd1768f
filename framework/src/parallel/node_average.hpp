// SPDX-License-Identifier: Apache-2.0
// Local SGD over nodes: S. Stich, "Local SGD Converges Fast and Communicates Little" (2019); the
// optimizer's state is averaged, too: H. Yu, R. Jin, S. Yang, "On the Linear Speedup Analysis of
// Communication Efficient Momentum SGD" (2019).
#pragma once

#include <memory>

#include "parallel/sharded_update.hpp"

namespace trireme {

class NodeAverage {
 public:
  // Collective. Shards must be over the node. ConfigError where nodes have unequally many ranks.
  // Both must outlive this.
  NodeAverage(FlatParameters& flat, ShardedUpdate& update, Sharding& sharding);

  // Collective, between steps: parameters and optimizer state become the mean over nodes, the same
  // bits on all.
  void average();
  double last_ms() const { return last_ms_; }  // how long the last one took

 private:
  FlatParameters& flat_;
  ShardedUpdate& update_;
  Sharding& sharding_;
  std::unique_ptr<Communicator> across_nodes_;  // the ranks that have this rank's part, one a node
  double last_ms_ = 0;
};

}  // namespace trireme
