// SPDX-License-Identifier: Apache-2.0
// The optimizer over ranks: each rank updates its part of every bucket and holds the optimizer
// state of that part only (Note [Shards]).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "optim/norm.hpp"
#include "optim/optimizer.hpp"
#include "parallel/flat_parameters.hpp"
#include "parallel/sharding.hpp"
#include "trireme/communicator.hpp"

namespace trireme {

class ShardedUpdate {
 public:
  // groups: [PlanParameter::group]; frozen ones have no parameters in the plan. group_of:
  // [parameter of flat]. All referenced objects must outlive this.
  ShardedUpdate(FlatParameters& flat, std::vector<ParameterGroup> groups, std::vector<int> group_of,
                Sharding& sharding);
  ~ShardedUpdate();

  // Of this rank's parts of the gradients, so far as they count (Sharding::adds_own_part). Summed
  // over ranks and rooted: the global norm, which does not depend on the plan.
  SquaredNorm squared_norm() const;
  void scale_gradients(double factor);  // of this rank's parts

  // Collective; no rank may be in forward or backward any more. Updates this rank's parts with
  // rates [group] and makes all parameters equal on all ranks of Sharding::summing(). step:
  // 1-based.
  void step(std::span<const double> rates, std::int64_t step);
  // The two halves of step(): not collective, one bucket's update, each once a step (Note [Updates
  // inside backward]); and, collective, what makes all parameters equal after the last of them.
  void update(std::size_t bucket, std::span<const double> rates, std::int64_t step);
  void gather();

  // How long the last step() waited for other ranks' parts, in milliseconds.
  double waited_ms() const { return waited_ms_; }

  const FlatParameters& flat() const { return flat_; }
  const Sharding& sharding() const { return sharding_; }
  // Names of the slots that the rule of this parameter of flat() has: [slot number].
  std::vector<std::string> slots_of(std::size_t parameter) const {
    return rules_[static_cast<std::size_t>(group_of_[parameter])]->slots();
  }
  // This rank's part of a bucket's flat tensor, and its optimizer state: [slot number].
  at::Tensor part(const at::Tensor& flat, std::size_t bucket) const;
  const std::vector<at::Tensor>& state(std::size_t bucket) const { return state_[bucket]; }

  // Optimizer state by parameter, for checkpoints: "exp_avg" of "layer1.weight" in the parameter's
  // logical shape.
  struct SlotTensor {
    std::string slot;
    std::size_t parameter = 0;  // of flat.parameters()
    at::Tensor tensor;          // whole, contiguous
  };
  // Collective. Calls visit for every slot of every parameter, in plan order, on rank 0 only; one
  // bucket is in memory at a time.
  template <class Visit>
  void visit_state(const Visit& visit) {
    for (std::size_t b = 0; b < flat_.plan().buckets.size(); ++b) {
      for (SlotTensor& slot : gather_state(b)) visit(slot);
    }
  }
  // Collective. fetch fills slot.tensor (zeros before) on rank 0 only; each rank then takes its
  // part.
  template <class Fetch>
  void restore_state(const Fetch& fetch) {
    for (std::size_t b = 0; b < flat_.plan().buckets.size(); ++b) {
      std::vector<SlotTensor> slots = state_tensors(b);
      if (sharding_.communicator().rank() == 0) {
        for (SlotTensor& slot : slots) fetch(slot);
      }
      scatter_state(b, slots);
    }
  }

 private:
  struct Segment;  // a run of this rank's part that shares a group
  void add_segments(std::size_t bucket);
  std::vector<SlotTensor> state_tensors(std::size_t bucket) const;
  std::vector<SlotTensor> gather_state(std::size_t bucket);
  void scatter_state(std::size_t bucket, const std::vector<SlotTensor>& slots);
  std::int64_t part_begin(std::size_t bucket) const;
  const Optimizer& rule_of(const PlanItem& item) const;

  FlatParameters& flat_;
  std::vector<ParameterGroup> groups_;
  std::vector<int> group_of_;
  Sharding& sharding_;
  std::vector<std::unique_ptr<Optimizer>> rules_;  // [group]
  std::vector<std::vector<at::Tensor>> state_;  // [bucket][slot number], each as long as the part
  std::vector<std::vector<Segment>> segments_;  // [bucket]
  double waited_ms_ = 0;
};

}  // namespace trireme
