// SPDX-License-Identifier: Apache-2.0
// What the ranks of a group on one node tell each other about the operations in flight, in memory
// that all of them map. Internal to comm/.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "comm/call.hpp"
#include "comm/memory_file.hpp"
#include "comm/node_arena.hpp"
#include "trireme/communicator.hpp"

namespace trireme {

// One rank's part of one operation. Its rank alone writes it. Operation s uses slot s % kSlots,
// when all ranks have left operation s - kSlots; the marks hold the sequence number plus one.
struct NodeSlot {
  static constexpr std::size_t kInlineBytes = std::size_t{16} << 10;

  // By std::atomic_ref only.
  alignas(64) std::uint64_t published;  // what stands below is valid
  std::uint64_t reduced;                // it has summed its part
  std::uint64_t left;                   // it will not look at this operation again

  // The call.
  Collective kind;
  DType dtype;
  WireType wire;
  std::int32_t root;
  std::uint64_t count;  // elements, or bytes of an exchange
  std::uint64_t offsets_hash;
  NodePlace place;  // of the data, where it is not inline

  // What this rank leaves for the others; valid once it is marked reduced.
  NodePlace result;
  std::uint64_t result_bytes;

  alignas(64) std::byte data[kInlineBytes];
};

class NodeBoard {
 public:
  static constexpr std::uint64_t kSlots = 16;

  // Collective over `parent`, for each of its groups at once. members: this rank's group, as ranks
  // of parent, all on one node; empty: this rank gets none (null). Throws SharedError where a rank
  // cannot map the memory.
  static std::shared_ptr<NodeBoard> make(Communicator& parent, const std::vector<int>& members);

  // A board of `size` ranks in memory of at least size_bytes(size), zero at first.
  NodeBoard(Mapping memory, int size) : memory_(std::move(memory)), size_(size) {}
  static std::size_t size_bytes(int size) {
    return static_cast<std::size_t>(size) * kSlots * sizeof(NodeSlot);
  }

  int size() const { return size_; }
  NodeSlot& slot(int rank, std::uint64_t sequence) const {
    return reinterpret_cast<NodeSlot*>(
        memory_.data())[static_cast<std::uint64_t>(rank) * kSlots + sequence % kSlots];
  }

 private:
  Mapping memory_;
  int size_;
};

}  // namespace trireme
