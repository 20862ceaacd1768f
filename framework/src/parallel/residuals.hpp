// SPDX-License-Identifier: Apache-2.0
// Error feedback's memory: what compression has taken off so far, to be added to the next gradient
// (Seide et al. 2014; Karimireddy et al. 2019).
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "parallel/gradient_reduction.hpp"

namespace trireme {

class Residuals {
 public:
  // Zero at first, one number for each of this rank's part of each bucket, on each node. Both must
  // outlive this.
  Residuals(const FlatParameters& flat, const Sharding& sharding);

  const at::Tensor& part(std::size_t bucket) const { return parts_[bucket]; }

  // Collective. Slot "residual.N" of each parameter is node N's. A checkpoint of another number of
  // nodes is what is owed in all: node 0 takes it over.
  void visit(const GradientReduction::Visit& visit) const;
  void restore(const GradientReduction::Fetch& fetch);

 private:
  at::Tensor whole_of_node(std::size_t bucket, int node) const;
  int nodes_in(const GradientReduction::Fetch& fetch) const;

  const FlatParameters& flat_;
  const Sharding& sharding_;
  std::vector<int> first_of_node_;  // [node] -> its lowest rank
  std::vector<at::Tensor> parts_;   // [bucket] (part)
};

}  // namespace trireme
