// SPDX-License-Identifier: Apache-2.0
// Over which ranks the update of a bucket is shared out, and how gradients get to them and
// parameters back.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "trireme/communicator.hpp"

namespace trireme {

// Note [Shards]
// Every bucket is cut into shards, and the rank that has a shard updates it and keeps its optimizer
// state (ZeRO stage 1: Rajbhandari et al. 2020).
//  * Over the node: each node has all shards, and its ranks share them; nodes do the same updates
//    of the same numbers. What travels between nodes is the sum of the gradients, all of it while
//    backward runs; parameters lie in memory that the ranks of a node share, so that nothing
//    travels after the update.
//  * Over the world: each shard is updated once in all. The state is as small as can be, but new
//    parameters travel between nodes after each update, when nothing hides it.
// On one node both are the same.
class Sharding {
 public:
  enum class Over { kNode, kWorld };
  // Whether gradients are summed over all ranks, or over each node alone (local SGD; over the node
  // only).
  enum class Sums { kTogether, kApart };

  // Collective. `communicator` must outlive this.
  Sharding(Communicator& communicator, Over over, Sums sums = Sums::kTogether);

  Communicator& communicator() const { return communicator_; }
  // The ranks whose parts are one whole sum.
  Communicator& summing() const { return sums_ == Sums::kApart ? *node_ : communicator_; }
  // How many sums there are: one, or one a node.
  int num_sums() const { return sums_ == Sums::kApart ? placement_.num_nodes : 1; }
  // Whether the ranks of this node have all shards between them.
  bool whole_on_node() const { return over_ == Over::kNode || placement_.num_nodes == 1; }
  // How many shards a bucket has; the same on every rank.
  int num_shards() const;
  // What this rank has of a bucket with these shard offsets: [num_shards()+1].
  Part part(const std::vector<std::size_t>& offsets) const;
  // Of all ranks of summing() that have an element, whether this one adds it to a sum over
  // elements.
  bool adds_own_part() const {
    return over_ == Over::kWorld || sums_ == Sums::kApart || placement_.node == 0;
  }

  // Collective, as the operations of Communicator. Sums gradients over the ranks of summing(): this
  // rank's part is valid afterwards. The wire type acts between nodes, and only over the node.
  [[nodiscard]] Request reduce(Span gradients, const std::vector<std::size_t>& offsets,
                               const Wire& wire) const;
  // The same over this rank's node alone; only over the node.
  [[nodiscard]] Request reduce_in_node(Span gradients,
                                       const std::vector<std::size_t>& offsets) const;
  // Afterwards this rank has all parts.
  [[nodiscard]] Request gather(Span data, const std::vector<std::size_t>& offsets) const;

 private:
  Communicator& communicator_;
  Over over_;
  Sums sums_;
  Placement placement_;
  std::unique_ptr<Communicator> node_;  // over the node: the ranks that share the shards
};

}  // namespace trireme
