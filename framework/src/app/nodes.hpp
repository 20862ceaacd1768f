// SPDX-License-Identifier: Apache-2.0
// Which ranks share a machine.
#pragma once

#include <vector>

#include "trireme/communicator.hpp"

namespace trireme {

struct Nodes {
  std::vector<int> node_of;             // [rank] -> node, numbered by lowest rank
  std::vector<std::vector<int>> ranks;  // [node] -> its ranks, ascending

  int count() const { return static_cast<int>(ranks.size()); }
  // How many ranks before this one are on its node.
  int local_rank(int rank) const;
};

// Collective.
Nodes find_nodes(Communicator& world);

}  // namespace trireme
