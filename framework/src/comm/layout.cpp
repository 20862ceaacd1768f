// SPDX-License-Identifier: Apache-2.0
#include "comm/layout.hpp"

#include <algorithm>
#include <map>

namespace trireme {
namespace {

// The inverse of part_of().
int local_rank_with(std::size_t shard, std::size_t num_shards, std::size_t local_size) {
  return static_cast<int>(shard * local_size / num_shards);
}

// What the ranks that have this shard sum of it on this node.
Part cell_of_node(std::span<const std::size_t> offsets, std::size_t shard, std::size_t node,
                  std::size_t num_nodes, DType dtype) {
  constexpr std::size_t kCutBytes = 64;
  const std::size_t alignment = kCutBytes / size_of(dtype);
  const std::size_t count = offsets[shard + 1] - offsets[shard];
  const auto cut = [&](std::size_t n) {
    return offsets[shard] +
           std::min(count, (count * n / num_nodes + alignment - 1) / alignment * alignment);
  };
  return {.begin = cut(node), .end = cut(node + 1)};
}

}  // namespace

Part part_of(std::span<const std::size_t> offsets, int local_rank, int local_size) {
  const std::size_t shards = offsets.size() - 1;
  const auto ranks = static_cast<std::size_t>(local_size);
  const auto first = [&](std::size_t rank) { return (rank * shards + ranks - 1) / ranks; };
  const auto rank = static_cast<std::size_t>(local_rank);
  return {.begin = offsets[first(rank)], .end = offsets[first(rank + 1)]};
}

std::vector<std::size_t> offsets_of_parts(std::span<const std::size_t> offsets, int local_size) {
  std::vector<std::size_t> begins;
  for (int rank = 0; rank < local_size; ++rank)
    begins.push_back(part_of(offsets, rank, local_size).begin);
  begins.push_back(offsets.back());
  return begins;
}

std::vector<Part> summed_parts(std::span<const std::size_t> offsets, const Placement& placement,
                               DType dtype) {
  std::vector<Part> parts;
  const auto num_shards = offsets.size() - 1;
  for (std::size_t shard = 0; shard < num_shards; ++shard) {
    const auto local_size = static_cast<std::size_t>(placement.local_size);
    if (local_rank_with(shard, num_shards, local_size) != placement.local_rank) continue;
    const Part cell = cell_of_node(offsets, shard, static_cast<std::size_t>(placement.node),
                                   static_cast<std::size_t>(placement.num_nodes), dtype);
    if (cell.size() > 0) parts.push_back(cell);
  }
  return parts;
}

int Layout::max_local_size() const {
  std::size_t most = 0;
  for (const auto& ranks : nodes) most = std::max(most, ranks.size());
  return static_cast<int>(most);
}

Placement Layout::placement_of(int rank) const {
  const auto r = static_cast<std::size_t>(rank);
  const auto node = static_cast<std::size_t>(node_of[r]);
  return {.num_nodes = num_nodes(),
          .node = node_of[r],
          .local_rank = local_rank_of[r],
          .local_size = static_cast<int>(nodes[node].size()),
          .max_local_size = max_local_size()};
}

Layout make_layout(std::span<const int> node_ids) {
  Layout layout;
  std::map<int, int> node_of_id;
  for (std::size_t rank = 0; rank < node_ids.size(); ++rank) {
    const auto [found, is_new] = node_of_id.try_emplace(node_ids[rank], layout.num_nodes());
    if (is_new) layout.nodes.emplace_back();
    auto& ranks = layout.nodes[static_cast<std::size_t>(found->second)];
    layout.node_of.push_back(found->second);
    layout.local_rank_of.push_back(static_cast<int>(ranks.size()));
    ranks.push_back(static_cast<int>(rank));
  }
  return layout;
}

std::vector<Cell> cells_of_ranks(std::span<const std::size_t> offsets, const Layout& layout) {
  std::vector<Cell> cells;
  for (std::size_t rank = 0; rank + 1 < offsets.size(); ++rank) {
    if (offsets[rank] == offsets[rank + 1]) continue;
    Cell cell{.begin = offsets[rank],
              .end = offsets[rank + 1],
              .owner = static_cast<int>(rank),
              .holders = {}};
    const auto lane = static_cast<std::size_t>(layout.local_rank_of[rank]);
    for (const auto& ranks : layout.nodes) cell.holders.push_back(ranks[lane % ranks.size()]);
    cell.holders[static_cast<std::size_t>(layout.node_of[rank])] = cell.owner;
    cells.push_back(std::move(cell));
  }
  return cells;
}

std::vector<Cell> cells_of_shards(std::span<const std::size_t> offsets, const Layout& layout,
                                  DType dtype) {
  std::vector<Cell> cells;
  const std::size_t num_shards = offsets.size() - 1, num_nodes = layout.nodes.size();
  for (std::size_t shard = 0; shard < num_shards; ++shard) {
    std::vector<int> holders;
    for (const auto& ranks : layout.nodes) {
      holders.push_back(
          ranks[static_cast<std::size_t>(local_rank_with(shard, num_shards, ranks.size()))]);
    }
    for (std::size_t node = 0; node < num_nodes; ++node) {
      const Part cell = cell_of_node(offsets, shard, node, num_nodes, dtype);
      if (cell.size() == 0) continue;
      cells.push_back(
          {.begin = cell.begin, .end = cell.end, .owner = holders[node], .holders = holders});
    }
  }
  return cells;
}

}  // namespace trireme
