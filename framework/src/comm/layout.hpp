// SPDX-License-Identifier: Apache-2.0
// Which ranks of a group share memory, and which of them sum and hold what between nodes. Pure
// functions: every rank comes to the same.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "trireme/communicator.hpp"

namespace trireme {

struct Layout {
  std::vector<std::vector<int>> nodes;  // [node] -> its ranks, ascending; nodes by lowest rank
  std::vector<int> node_of;             // [rank]
  std::vector<int> local_rank_of;       // [rank] -> place in its node

  int num_nodes() const { return static_cast<int>(nodes.size()); }
  int max_local_size() const;
  Placement placement_of(int rank) const;
};

// node_ids: [rank], any numbers; ranks of equal ones share a node.
Layout make_layout(std::span<const int> node_ids);

// Elements that one rank sums for all nodes.
struct Cell {
  std::size_t begin = 0, end = 0;
  int owner = 0;             // the rank that sums
  std::vector<int> holders;  // [node] -> the rank that gives its node's partial sum and is given
                             // the whole one; the owner on its own node
};

// One lane per local rank: what a rank owns it exchanges with ranks of equal local rank, so far as
// nodes have equally many.
// reduce_scatter, all_gather: offsets [ranks+1]; each rank owns its part.
std::vector<Cell> cells_of_ranks(std::span<const std::size_t> offsets, const Layout& layout);
// node_reduce_scatter: offsets [shards+1]. Each shard is cut once more, into one cell a node; who
// has the shard on a node (part_of) holds its cells there. Cuts lie at multiples of 64 bytes from
// the shard's begin.
std::vector<Cell> cells_of_shards(std::span<const std::size_t> offsets, const Layout& layout,
                                  DType dtype);

}  // namespace trireme
