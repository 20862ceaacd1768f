// SPDX-License-Identifier: Apache-2.0
#include "parallel/node_average.hpp"

#include <chrono>
#include <vector>

#include <ATen/core/grad_mode.h>

#include "comm/agree.hpp"
#include "comm/phase.hpp"
#include "trireme/error.hpp"

namespace trireme {

NodeAverage::NodeAverage(FlatParameters& flat, ShardedUpdate& update, Sharding& sharding)
    : flat_(flat), update_(update), sharding_(sharding) {
  Communicator& all = sharding.communicator();
  const Placement here = all.placement();
  if (any_rank(all, here.local_size != here.max_local_size)) {
    throw ConfigError(
        "parallel.sync_every > 1 wants equally many ranks on every node; expected a multiple of " +
        std::to_string(here.num_nodes) + " ranks, " + std::to_string(here.max_local_size) +
        " a node, found " + std::to_string(all.size()) +
        "; start with another number of ranks, another --map-by ppr:N:node or --ranks-per-node N");
  }
  across_nodes_ = all.split(here.local_rank, all.rank());
}

void NodeAverage::average() {
  const at::NoGradGuard no_grad;
  const auto start = std::chrono::steady_clock::now();
  std::vector<at::Tensor> own;
  for (std::size_t b = 0; b < flat_.plan().buckets.size(); ++b) {
    own.push_back(update_.part(flat_.values(b), b));
    for (const at::Tensor& slot : update_.state(b)) own.push_back(slot);
  }
  std::vector<Request> sums;
  for (const at::Tensor& part : own) sums.push_back(across_nodes_->all_reduce(span_of(part)));
  for (std::size_t i = 0; i < own.size(); ++i) {
    in_phase("averaging over nodes", [&] { sums[i].wait(); });
    own[i].mul_(1.0 / across_nodes_->size());
  }
  for (std::size_t b = 0; b < flat_.plan().buckets.size(); ++b) {
    Request whole =
        sharding_.gather(span_of(flat_.values(b)), flat_.plan().buckets[b].shard_offsets);
    flat_.wait(whole, "averaged parameters", b);
  }
  const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - start;
  last_ms_ = passed.count();
}

}  // namespace trireme
