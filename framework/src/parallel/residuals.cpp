// SPDX-License-Identifier: Apache-2.0
#include "parallel/residuals.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

namespace trireme {
namespace {

std::string slot_of(int node) { return "residual." + std::to_string(node); }

at::Tensor narrow(const at::Tensor& flat, Part part) {
  return flat.narrow(0, static_cast<std::int64_t>(part.begin),
                     static_cast<std::int64_t>(part.size()));
}

std::vector<int> first_ranks(Communicator& communicator) {
  const Placement placement = communicator.placement();
  std::vector<int> first(static_cast<std::size_t>(placement.num_nodes), -1);
  int rank = 0;
  for (const std::string& node : communicator.exchange(std::to_string(placement.node))) {
    int& lowest = first[std::stoul(node)];
    if (lowest < 0) lowest = rank;
    ++rank;
  }
  return first;
}

}  // namespace

Residuals::Residuals(const FlatParameters& flat, const Sharding& sharding)
    : flat_(flat), sharding_(sharding), first_of_node_(first_ranks(sharding.communicator())) {
  for (std::size_t b = 0; b < flat.plan().buckets.size(); ++b) {
    const Part part = sharding.part(flat.plan().buckets[b].shard_offsets);
    parts_.push_back(at::zeros_like(narrow(flat.values(b), part)));
  }
}

// On every rank, for the time of a checkpoint.
at::Tensor Residuals::whole_of_node(std::size_t bucket, int node) const {
  const auto& offsets = flat_.plan().buckets[bucket].shard_offsets;
  at::Tensor whole = at::zeros_like(flat_.values(bucket));
  Communicator& all = sharding_.communicator();
  if (all.placement().node == node) {
    narrow(whole, sharding_.part(offsets)).copy_(parts_[bucket]);
    sharding_.gather(span_of(whole), offsets).wait();
  }
  all.broadcast(span_of(whole), first_of_node_[static_cast<std::size_t>(node)]).wait();
  return whole;
}

void Residuals::visit(const GradientReduction::Visit& visit) const {
  for (std::size_t b = 0; b < parts_.size(); ++b) {
    for (int node = 0; node < static_cast<int>(first_of_node_.size()); ++node) {
      const at::Tensor whole = whole_of_node(b, node);
      if (sharding_.communicator().rank() != 0) continue;
      for (const PlanItem& item : flat_.plan().buckets[b].items) {
        visit(slot_of(node), static_cast<std::size_t>(item.parameter),
              flat_.view(whole, 0, item).contiguous(at::MemoryFormat::Contiguous));
      }
    }
  }
}

int Residuals::nodes_in(const GradientReduction::Fetch& fetch) const {
  Communicator& all = sharding_.communicator();
  int nodes = 0;
  if (all.rank() == 0) {
    const auto parameter =
        static_cast<std::size_t>(flat_.plan().buckets.front().items.front().parameter);
    const at::Tensor probe =
        at::zeros_like(flat_.parameters()[parameter].tensor, at::MemoryFormat::Contiguous).detach();
    while (fetch(slot_of(nodes), parameter, probe)) ++nodes;
  }
  return std::stoi(all.exchange(std::to_string(nodes)).front());
}

void Residuals::restore(const GradientReduction::Fetch& fetch) {
  const at::NoGradGuard no_grad;
  Communicator& all = sharding_.communicator();
  const int saved = nodes_in(fetch);
  const bool same = saved == static_cast<int>(first_of_node_.size());
  for (std::size_t b = 0; b < parts_.size(); ++b) {
    const auto& bucket = flat_.plan().buckets[b];
    parts_[b].zero_();
    for (int node = 0; node < saved; ++node) {
      const at::Tensor whole = at::zeros_like(flat_.values(b));
      if (all.rank() == 0) {
        for (const PlanItem& item : bucket.items) {
          const auto parameter = static_cast<std::size_t>(item.parameter);
          const at::Tensor view = flat_.view(whole, 0, item);
          const at::Tensor dense = at::zeros(view.sizes(), view.options());
          if (fetch(slot_of(node), parameter, dense)) view.copy_(dense);
        }
      }
      all.broadcast(span_of(whole), 0).wait();
      if (all.placement().node == (same ? node : 0))
        parts_[b].add_(narrow(whole, sharding_.part(bucket.shard_offsets)));
    }
  }
}

}  // namespace trireme
