// SPDX-License-Identifier: Apache-2.0
#include "comm/node_board.hpp"

#include <optional>
#include <string>
#include <vector>

#include "comm/shared_error.hpp"

namespace trireme {

std::shared_ptr<NodeBoard> NodeBoard::make(Communicator& parent, const std::vector<int>& members) {
  const int size = static_cast<int>(members.size());
  std::optional<MemoryFile> file;  // of the group's first rank, until all have mapped it
  std::string packed;
  collectively(parent, [&] {
    if (members.empty() || members.front() != parent.rank()) return;
    file.emplace().resize(size_bytes(size));
    file->reserve(0, size_bytes(size));
    packed = pack(file->handle());
  });
  const std::vector<std::string> handles = parent.exchange(packed);
  std::shared_ptr<NodeBoard> board;
  collectively(parent, [&] {
    if (members.empty()) return;
    const MemoryHandle handle = unpack(handles[static_cast<std::size_t>(members.front())]);
    board = std::make_shared<NodeBoard>(map_memory(handle, Access::kWrite), size);
  });
  return board;
}

}  // namespace trireme
