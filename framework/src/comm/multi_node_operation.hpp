// SPDX-License-Identifier: Apache-2.0
// One collective of a group whose ranks are on several nodes. Internal to the MPI communicator.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/collective_task.hpp"
#include "comm/lanes.hpp"
#include "comm/layout.hpp"
#include "comm/messages.hpp"
#include "comm/node_stage.hpp"

namespace trireme {

// How the messages of one operation travel.
struct MessageSizes {
  std::size_t piece_bytes = 0;   // see Note [Lanes]
  std::size_t gather_bytes = 0;  // an all_reduce up to this size takes the shortest way
};

// Note [Operations of several nodes]
// On its node each rank publishes its call and data as in Note [Operations on a node]; between
// nodes messages travel (Note [Lanes]); what a rank was given the others of its node read or copy
// once it is marked reduced.
//  * A small all_reduce, and barrier: the first rank of each node, in ceil(log2(nodes)) rounds: an
//    all-gather of the nodes' sums (Bruck et al. 1997), summed by each in the order of nodes; a
//    dissemination barrier (Hensgen et al. 1988).
//  * broadcast: a binomial tree of nodes, a piece passed on as soon as it is there.
//  * exchange: the first rank of each node sends its node's texts to those of the others.
// Only the progress thread advances it, since it calls MPI.
class MultiNodeOperation : public CollectiveTask {
 public:
  // route: of the first of two tags. pool: outlives the progress thread's use of this.
  MultiNodeOperation(Call call, int rank, std::shared_ptr<const Layout> layout,
                     std::shared_ptr<const NodeSeat> seat, Route route, MessageSizes options,
                     ScratchPool& pool, std::chrono::milliseconds timeout);

 protected:
  Advance advance() override;
  std::string waits_for() const override;

 private:
  // A step: whether it is done; if not it is called again.
  using Step = bool (MultiNodeOperation::*)();
  static std::span<const Step> steps_of(Collective kind, bool is_small);

  bool publish() { return stage_.publish(); }
  bool arrive() { return stage_.arrive(); }
  bool move_lanes();
  bool relay_root();
  bool gather_small();
  bool signal_nodes();
  bool send_texts();
  bool mark_reduced();
  bool all_reduced() { return stage_.all_have(&NodeSlot::reduced); }
  bool copy_cells();
  bool copy_root();
  bool take_small();
  bool read_texts();
  bool leave();
  bool all_left() { return stage_.all_have(&NodeSlot::left); }
  bool copy_out();

  bool is_first_of_node() const { return stage_.local_rank() == 0; }
  int num_nodes() const { return layout_->num_nodes(); }
  int first_of_node(int node) const { return layout_->nodes[std::size_t(node)].front(); }
  int node_after(int steps) const { return (node_ + steps) % num_nodes(); }
  int root_of_node(int node) const;
  Part own_part() const;
  void open_lanes();
  void open_relay();
  bool messages_arrived();
  void sum_node_to(std::byte* out) const;
  std::string pack_texts() const;
  void unpack_texts(std::string_view packed);

  const std::shared_ptr<const Layout> layout_;
  const int node_;
  const Route route_, second_route_;
  const MessageSizes options_;
  ScratchPool& pool_;
  const bool is_small_;
  NodeStage stage_;
  const std::span<const Step> steps_;
  std::size_t next_step_ = 0;
  std::size_t done_ = 0;  // of the step that is under way
  bool moved_ = false;

  std::vector<Cell> cells_;
  std::optional<Lanes> lanes_;
  std::optional<MessageStream> from_parent_;
  std::vector<MessageStream> to_children_;
  Messages messages_;
  int distance_ = 0;                       // of the round under way, in nodes
  Buffer blocks_;                          // [steps to the node] -> its sum
  std::vector<std::uint64_t> text_bytes_;  // [node]
  std::vector<std::string> packed_texts_;  // [node]
  std::string all_texts_;
};

}  // namespace trireme
