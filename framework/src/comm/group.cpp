// SPDX-License-Identifier: Apache-2.0
#include "comm/group.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "trireme/error.hpp"

namespace trireme {

std::vector<int> agree_on_group(Communicator& parent, int color, int key) {
  using Wish = std::array<int, 2>;  // colour, key
  const Wish mine = {color, key};
  std::string bytes(sizeof(mine), '\0');
  std::memcpy(bytes.data(), mine.data(), sizeof(mine));
  const std::vector<std::string> all = parent.exchange(bytes);

  std::vector<std::pair<int, int>> order;  // key, rank in parent
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    Wish wish = {};
    TRIREME_ASSERT(all[rank].size() == sizeof(wish), "ranks disagree on calling split()");
    std::memcpy(wish.data(), all[rank].data(), sizeof(wish));
    if (wish[0] == color) order.emplace_back(wish[1], static_cast<int>(rank));
  }
  std::sort(order.begin(), order.end());
  std::vector<int> members;
  for (const auto& [_, rank] : order) members.push_back(rank);
  return members;
}

int index_in(const std::vector<int>& members, int rank) {
  const auto found = std::find(members.begin(), members.end(), rank);
  TRIREME_ASSERT(found != members.end(), "a rank is not in its own group");
  return static_cast<int>(found - members.begin());
}

}  // namespace trireme
