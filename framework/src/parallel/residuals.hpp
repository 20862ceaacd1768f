// SPDX-License-Identifier: Apache-2.0
// Error feedback's memory: what compression has taken off so far, to be added to the next gradient
// (Seide et al. 2014; Karimireddy et al. 2019).
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "parallel/gradient_reduction.hpp"

namespace trireme {

// Note [What is owed]
// Each node owes what was taken off its own sum, the slot "residual.N" of each parameter: rank by
// rank, the part of the bucket that the rank has. Where sums are rounded, too, all nodes together
// owe what was taken off those, the slot "sum_residual": rank by rank what the rank sums
// (summed_parts). Neither depends on how parameters are put into buckets.
class Residuals {
 public:
  // Collective. Zero at first; empty on one node, which compresses nothing. Both must outlive this.
  Residuals(const FlatParameters& flat, const Sharding& sharding, bool of_sums);

  const at::Tensor& part(std::size_t bucket) const { return parts_[bucket]; }  // this rank's
  // [elements of summed_parts()], of sums only.
  const at::Tensor& of_sums(std::size_t bucket) const { return sums_[bucket]; }

  // Collective. A checkpoint of another number of nodes is what is owed in all: node 0 takes it
  // over. One node owes nothing: what a checkpoint holds is dropped.
  void visit(const GradientReduction::Visit& visit) const;
  void restore(const GradientReduction::Fetch& fetch);

 private:
  at::Tensor whole_of_node(std::size_t bucket, int node) const;
  at::Tensor whole_of_sums(std::size_t bucket) const;
  void visit_slot(const std::string& slot, std::size_t bucket, const at::Tensor& whole,
                  const GradientReduction::Visit& visit) const;
  at::Tensor fetch_slot(const std::string& slot, std::size_t bucket,
                        const GradientReduction::Fetch& fetch) const;
  int nodes_in(const GradientReduction::Fetch& fetch) const;
  int num_nodes() const { return sharding_.communicator().placement().num_nodes; }
  std::vector<Part> summed(std::size_t bucket) const;

  const FlatParameters& flat_;
  const Sharding& sharding_;
  std::unique_ptr<Communicator> across_nodes_;  // the ranks of this local rank, one a node
  std::vector<at::Tensor> parts_, sums_;        // [bucket]
};

}  // namespace trireme
