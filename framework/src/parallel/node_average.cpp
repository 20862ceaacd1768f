// SPDX-License-Identifier: Apache-2.0
#include "parallel/node_average.hpp"

#include <vector>

#include <ATen/core/grad_mode.h>

#include "comm/agree.hpp"
#include "trireme/error.hpp"

namespace trireme {

NodeAverage::NodeAverage(FlatParameters& flat, ShardedUpdate& update, Sharding& sharding)
    : flat_(flat), update_(update), sharding_(sharding) {
  Communicator& all = sharding.communicator();
  const Placement here = all.placement();
  if (any_rank(all, here.local_size != here.max_local_size)) {
    throw ConfigError(
        "parallel.sync_every > 1 wants equally many ranks on every node; start with another "
        "number of ranks or --map-by ppr:N:node");
  }
  lane_ = all.split(here.local_rank, all.rank());
}

void NodeAverage::average(const at::Tensor& flat) {
  if (flat.numel() == 0) return;
  lane_->all_reduce(span_of(flat)).wait();
  flat.mul_(1.0 / lane_->size());
}

void NodeAverage::average() {
  const at::NoGradGuard no_grad;
  for (std::size_t b = 0; b < flat_.plan().buckets.size(); ++b) {
    average(update_.part(flat_.values(b), b));
    for (const at::Tensor& slot : update_.state(b)) average(slot);
  }
  for (std::size_t b = 0; b < flat_.plan().buckets.size(); ++b) {
    sharding_.gather(span_of(flat_.values(b)), flat_.plan().buckets[b].shard_offsets).wait();
  }
}

}  // namespace trireme
