// SPDX-License-Identifier: Apache-2.0
// One collective of a group whose ranks share memory. Internal to the MPI communicator.
#pragma once

#include <span>

#include "comm/collective_task.hpp"
#include "comm/node_stage.hpp"

namespace trireme {

// Note [Operations on a node]
// Each rank publishes its call and where its data lies, in its slot of the group's board, and reads
// the data of the others where they lie: a sum is one pass over all ranks' memory, by the part's
// owner, in rank order, who also writes it to all ranks where all want it: a line of memory that
// has just been read is cheaper to write than to be fetched once more by each of the others. Small
// data, and texts, stand in the slot itself. Data outside the arena is copied in and out.
//
// Nobody's memory is touched after its rank's operation is complete: a rank that reads or writes
// others' memory marks `reduced` or `left` when it has, and they wait for the marks. After one that
// failed it may be: the job ends then, and addresses of an arena are not used again.
class NodeOperation : public CollectiveTask {
 public:
  NodeOperation(Call call, std::shared_ptr<const NodeSeat> seat, std::chrono::milliseconds timeout);

  // After its first step: whether the progress thread should look at it at once. Else it is enough
  // when it next wakes by itself: what others need of a small operation is published, and what the
  // parts of a middling one cost is less than waking a thread, if callers wait for them anyway.
  // They do not for sums that leave each rank its part: those are of gradients, under backward.
  bool is_urgent() const;

 protected:
  Advance advance() override;
  bool callers_help() const override { return true; }
  bool helpers_spin() const override { return stage_.has_core_each(); }
  std::string waits_for() const override { return stage_.waits_for(); }

 private:
  // A step: whether it is done; if not it is called again.
  using Step = bool (NodeOperation::*)();
  static std::span<const Step> steps_of(Collective kind, bool is_inline);

  bool publish() { return stage_.publish(); }
  bool arrive() { return stage_.arrive(); }
  bool sum_all();
  bool sum_own_part();
  bool sum_for_all();  // the own part, into the memory of all
  bool sum_part(std::span<std::byte* const> places);
  bool copy_parts();  // of the others, each from its owner
  bool read_texts();
  bool copy_root();
  bool all_reduced() { return stage_.all_have(&NodeSlot::reduced); }
  bool all_left() { return stage_.all_have(&NodeSlot::left); }
  bool leave();
  bool copy_out();  // of staged data

  std::size_t part_begin(int owner) const { return offsets_[static_cast<std::size_t>(owner)]; }
  std::size_t part_end(int owner) const { return offsets_[static_cast<std::size_t>(owner) + 1]; }

  NodeStage stage_;
  const std::span<const Step> steps_;
  std::vector<std::size_t> offsets_;  // [size + 1], of sums and gathers
  std::size_t next_step_ = 0;
  std::size_t done_ = 0;  // elements of the step that is under way
};

}  // namespace trireme
