// SPDX-License-Identifier: Apache-2.0
#include "parallel/residuals.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

namespace trireme {
namespace {

constexpr const char* kSumSlot = "sum_residual";

std::string slot_of(int node) { return "residual." + std::to_string(node); }

}  // namespace

Residuals::Residuals(const FlatParameters& flat, const Sharding& sharding, bool of_sums)
    : flat_(flat), sharding_(sharding) {
  Communicator& all = sharding.communicator();
  across_nodes_ = all.split(all.placement().local_rank, all.rank());
  for (std::size_t b = 0; b < flat.plan().buckets.size(); ++b) {
    const Part part =
        num_nodes() == 1 ? Part{} : sharding.part(flat.plan().buckets[b].shard_offsets);
    parts_.push_back(at::zeros_like(narrow(flat.values(b), part)));
    if (!of_sums) continue;
    std::size_t count = 0;
    for (const Part& sum : num_nodes() == 1 ? std::vector<Part>() : summed(b)) count += sum.size();
    sums_.push_back(at::zeros_like(narrow(flat.values(b), {.begin = 0, .end = count})));
  }
}

std::vector<Part> Residuals::summed(std::size_t bucket) const {
  const PlanBucket& plan = flat_.plan().buckets[bucket];
  return summed_parts(plan.shard_offsets, sharding_.communicator().placement(), plan.dtype);
}

// Of the node's ranks, and of the first rank of each node, for the time of a checkpoint. (The first
// node's first rank is rank 0.)
at::Tensor Residuals::whole_of_node(std::size_t bucket, int node) const {
  const auto& offsets = flat_.plan().buckets[bucket].shard_offsets;
  const Placement here = sharding_.communicator().placement();
  at::Tensor whole = at::zeros_like(flat_.values(bucket));
  if (here.node == node) {
    narrow(whole, sharding_.part(offsets)).copy_(parts_[bucket]);
    sharding_.gather(span_of(whole), offsets).wait();
  }
  if (here.local_rank == 0) across_nodes_->broadcast(span_of(whole), node).wait();
  return whole;
}

at::Tensor Residuals::whole_of_sums(std::size_t bucket) const {
  at::Tensor whole = at::zeros_like(flat_.values(bucket));
  std::int64_t at = 0;
  for (const Part& part : summed(bucket)) {
    const auto count = static_cast<std::int64_t>(part.size());
    narrow(whole, part).copy_(sums_[bucket].narrow(0, at, count));
    at += count;
  }
  // Each element lies on one rank: the sum is exact.
  sharding_.communicator().all_reduce(span_of(whole)).wait();
  return whole;
}

void Residuals::visit_slot(const std::string& slot, std::size_t bucket, const at::Tensor& whole,
                           const GradientReduction::Visit& visit) const {
  if (sharding_.communicator().rank() != 0) return;
  for (const PlanItem& item : flat_.plan().buckets[bucket].items) {
    visit(slot, static_cast<std::size_t>(item.parameter),
          flat_.view(whole, 0, item).contiguous(at::MemoryFormat::Contiguous));
  }
}

void Residuals::visit(const GradientReduction::Visit& visit) const {
  if (num_nodes() == 1) return;
  for (std::size_t b = 0; b < parts_.size(); ++b) {
    for (int node = 0; node < num_nodes(); ++node)
      visit_slot(slot_of(node), b, whole_of_node(b, node), visit);
    if (!sums_.empty()) visit_slot(kSumSlot, b, whole_of_sums(b), visit);
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

// On every rank; zero where the checkpoint has none.
at::Tensor Residuals::fetch_slot(const std::string& slot, std::size_t bucket,
                                 const GradientReduction::Fetch& fetch) const {
  at::Tensor whole = at::zeros_like(flat_.values(bucket));
  if (sharding_.communicator().rank() == 0) {
    for (const PlanItem& item : flat_.plan().buckets[bucket].items) {
      const at::Tensor view = flat_.view(whole, 0, item);
      const at::Tensor dense = at::zeros(view.sizes(), view.options());
      if (fetch(slot, static_cast<std::size_t>(item.parameter), dense)) view.copy_(dense);
    }
  }
  sharding_.communicator().broadcast(span_of(whole), 0).wait();
  return whole;
}

void Residuals::restore(const GradientReduction::Fetch& fetch) {
  const at::NoGradGuard no_grad;
  if (num_nodes() == 1) return;
  const int saved = nodes_in(fetch), here = sharding_.communicator().placement().node;
  for (std::size_t b = 0; b < parts_.size(); ++b) {
    parts_[b].zero_();
    for (int node = 0; node < saved; ++node) {
      const at::Tensor whole = fetch_slot(slot_of(node), b, fetch);
      if (here == (saved == num_nodes() ? node : 0))
        parts_[b].add_(narrow(whole, sharding_.part(flat_.plan().buckets[b].shard_offsets)));
    }
    if (sums_.empty()) continue;
    const at::Tensor whole = fetch_slot(kSumSlot, b, fetch);
    std::int64_t at = 0;
    for (const Part& part : summed(b)) {
      const auto count = static_cast<std::int64_t>(part.size());
      sums_[b].narrow(0, at, count).copy_(narrow(whole, part));
      at += count;
    }
  }
}

}  // namespace trireme
