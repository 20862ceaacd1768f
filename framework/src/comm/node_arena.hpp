// SPDX-License-Identifier: Apache-2.0
// Memory that a rank allocates and the other ranks of its node read and write. Internal to comm/.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/memory_file.hpp"
#include "trireme/communicator.hpp"

namespace trireme {

// A place in some rank's arena. Plain numbers: it lies in shared memory.
struct NodePlace {
  MemoryHandle slab;
  std::uint64_t offset = 0;  // bytes
};

// Note [Slabs]
// An arena takes its memory from few, large files ("slabs"), so that neither file descriptors nor
// mappings grow with the number of buffers. A slab is address space only; each allocation takes its
// own pages, and gives them back when it is freed, while the addresses are not used again.
//
// Any thread may call any of it. Owned by shared_ptr: buffers keep it alive.
class NodeArena : public std::enable_shared_from_this<NodeArena> {
 public:
  // Throws EnvironmentError where this process cannot have such memory.
  explicit NodeArena(std::size_t slab_bytes = std::size_t{1} << 30);

  // Zeroed, aligned to pages. Throws EnvironmentError where the machine has no more.
  Buffer allocate(std::size_t size_bytes);
  // Memory for num_users processes, of which this is one: `place` tells the others where it is. The
  // pages go back when all have destroyed their buffers.
  Buffer allocate_shared(std::size_t size_bytes, std::size_t num_users, std::string& place);
  // Another's memory. Throws EnvironmentError where this process cannot map it.
  Buffer map_shared(std::size_t size_bytes, const std::string& place);

  // Where data[0, size_bytes) lies; nothing where it is in no memory that this arena has allocated
  // or mapped.
  std::optional<NodePlace> find(const void* data, std::size_t size_bytes) const;
  // The address here of a place in any arena of the node; a slab is mapped on first use. Throws
  // EnvironmentError where this process cannot map it.
  std::byte* address_of(const NodePlace& place);

 private:
  struct Slab {
    explicit Slab(std::size_t size_bytes);
    MemoryFile file;
    Mapping mapping;
    MemoryHandle handle;
    std::size_t used_bytes = 0;
  };

  // A slab of another process, or this one's once more.
  struct View {
    MemoryHandle handle;
    Mapping mapping;
  };

  // Under mutex_: pages nobody has used.
  std::pair<Slab*, std::byte*> take(std::size_t size_bytes);
  void free(Slab& slab, void* data, std::size_t size_bytes);
  Buffer shared_buffer(std::byte* header, std::size_t size_bytes);

  const std::size_t slab_bytes_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Slab>> slabs_;
  std::map<std::uint64_t, View> views_;  // [inode of a slab]
};

}  // namespace trireme
