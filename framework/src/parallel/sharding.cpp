// SPDX-License-Identifier: Apache-2.0
#include "parallel/sharding.hpp"

#include "trireme/error.hpp"

namespace trireme {

Sharding::Sharding(Communicator& communicator, Over over, Sums sums)
    : communicator_(communicator), over_(over), sums_(sums), placement_(communicator.placement()) {
  TRIREME_ASSERT(over == Over::kNode || sums == Sums::kTogether, "nodes that are apart need all");
  if (over_ == Over::kNode) node_ = communicator.split(placement_.node, communicator.rank());
}

int Sharding::num_shards() const {
  return over_ == Over::kNode ? placement_.max_local_size : communicator_.size();
}

Part Sharding::part(const std::vector<std::size_t>& offsets) const {
  TRIREME_ASSERT(offsets.size() == static_cast<std::size_t>(num_shards()) + 1,
                 "a plan for another number of shards");
  return over_ == Over::kNode ? part_of(offsets, placement_.local_rank, placement_.local_size)
                              : part_of(offsets, communicator_.rank(), communicator_.size());
}

Request Sharding::reduce(Span gradients, const std::vector<std::size_t>& offsets,
                         const Wire& wire) const {
  if (sums_ == Sums::kApart) return reduce_in_node(gradients, offsets);
  if (over_ == Over::kNode) return communicator_.node_reduce_scatter(gradients, offsets, wire);
  TRIREME_ASSERT(wire.type == WireType::kSame, "only sums over nodes travel at half width");
  return communicator_.reduce_scatter(gradients, offsets);
}

Request Sharding::reduce_in_node(Span gradients, const std::vector<std::size_t>& offsets) const {
  TRIREME_ASSERT(over_ == Over::kNode, "shards are not over the node");
  return node_->reduce_scatter(gradients, offsets_of_parts(offsets, placement_.local_size));
}

Request Sharding::gather(Span data, const std::vector<std::size_t>& offsets) const {
  if (over_ == Over::kWorld) return communicator_.all_gather(data, offsets);
  return node_->all_gather(data, offsets_of_parts(offsets, placement_.local_size));
}

}  // namespace trireme
