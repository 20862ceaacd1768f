// SPDX-License-Identifier: Apache-2.0
#include "app/nodes.hpp"

#include <algorithm>
#include <string>

namespace trireme {

int Nodes::local_rank(int rank) const {
  const auto& members = ranks[static_cast<std::size_t>(node_of[static_cast<std::size_t>(rank)])];
  return static_cast<int>(std::ranges::find(members, rank) - members.begin());
}

Nodes find_nodes(Communicator& world) {
  const std::unique_ptr<Communicator> node = world.split_by_node();
  const std::string lowest = node->exchange(std::to_string(world.rank())).front();
  Nodes nodes;
  std::vector<std::string> seen;  // [node] -> lowest rank
  for (const std::string& of_rank : world.exchange(lowest)) {
    const auto known = std::ranges::find(seen, of_rank);
    const auto index = static_cast<std::size_t>(known - seen.begin());
    if (known == seen.end()) {
      seen.push_back(of_rank);
      nodes.ranks.emplace_back();
    }
    nodes.ranks[index].push_back(static_cast<int>(nodes.node_of.size()));
    nodes.node_of.push_back(static_cast<int>(index));
  }
  return nodes;
}

}  // namespace trireme
