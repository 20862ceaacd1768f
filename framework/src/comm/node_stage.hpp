// SPDX-License-Identifier: Apache-2.0
// One operation's place on the board of its node: what this rank shows the others, and what it sees
// of them. Internal to the MPI communicator.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "comm/call.hpp"
#include "comm/node_arena.hpp"
#include "comm/node_board.hpp"
#include "comm/scratch.hpp"

namespace trireme {

// What a rank's operations on its node work with.
struct NodeMemory {
  std::shared_ptr<NodeArena> arena = std::make_shared<NodeArena>();
  ScratchPool scratch{
      [arena = arena](std::size_t size_bytes) { return arena->allocate(size_bytes); }};
  bool has_core_each = false;  // the ranks of the node may run on as many cores, or more
};

// The ranks of a group on this rank's node. board and memory are null where it is alone there.
struct NodeSeat {
  std::shared_ptr<const NodeBoard> board;
  std::shared_ptr<NodeMemory> memory;
  std::vector<int> ranks;  // [local rank] -> rank in the group, for messages
  int local_rank = 0;

  std::size_t size() const { return ranks.size(); }
};

class NodeStage {
 public:
  using Mark = std::uint64_t NodeSlot::*;

  // call: outlives this. may_be_inline: small data stands in the slot itself. Only its rank writes
  // there, before it is marked reduced, and its memory is not given to others: they read the slot.
  NodeStage(const Call& call, std::shared_ptr<const NodeSeat> seat, bool may_be_inline);

  // Each false: not yet; call again.
  bool publish();  // what this rank calls, and where its data lies
  bool arrive();   // all ranks of the node have. CommError where one calls something else
  bool all_have(Mark mark) { return all_have(mark, call_.sequence); }

  void set(Mark mark) const;
  // Staged data back to where it came from: elements [begin, end).
  void copy_out(std::size_t begin, std::size_t end);

  bool is_inline() const { return is_inline_; }
  std::size_t local_rank() const { return static_cast<std::size_t>(seat_->local_rank); }
  std::size_t local_size() const { return seat_->size(); }
  bool has_core_each() const { return seat_->memory && seat_->memory->has_core_each; }
  // After arrive(): where each rank's data lies here, and how many bytes an exchange of it has.
  const std::vector<std::byte*>& data() const { return data_; }  // [local rank]
  std::size_t text_bytes(std::size_t local_rank) const;
  // After publish(): this rank's data, where the operation works on it.
  std::byte* own() const { return own_; }
  bool is_staged() const { return staged_.size_bytes() > 0; }

  // A result that one rank leaves for the others; published by its mark `reduced`.
  std::byte* make_result(std::size_t size_bytes);
  std::string_view result_of(std::size_t local_rank) const;

  std::string waits_for() const;  // ranks that have not set the mark last asked for

 private:
  bool all_have(Mark mark, std::uint64_t sequence);
  void publish_data();
  NodeSlot& slot(std::size_t local_rank) const {
    return seat_->board->slot(static_cast<int>(local_rank), call_.sequence);
  }

  const Call& call_;
  const std::shared_ptr<const NodeSeat> seat_;
  const bool is_inline_;
  Buffer staged_;  // data from outside the arena
  Buffer result_;
  std::byte* own_ = nullptr;
  std::vector<std::byte*> data_;
  Mark awaited_ = &NodeSlot::published;  // last looked for, of operation awaited_sequence_
  std::uint64_t awaited_sequence_ = 0;
};

}  // namespace trireme
