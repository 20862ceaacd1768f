// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "trireme/communicator.hpp"

namespace trireme {

// Collective over `parent`, by one exchange: the ranks of parent that gave this rank's colour,
// ordered by (key, rank). [rank in the new group]
std::vector<int> agree_on_group(Communicator& parent, int color, int key);

// Where `rank` stands in `members`.
int index_in(const std::vector<int>& members, int rank);

}  // namespace trireme
