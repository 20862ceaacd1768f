// SPDX-License-Identifier: Apache-2.0
// One call of a collective, as all kinds of communicators record, check and name it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/communicator.hpp"

namespace trireme {

enum class Collective : std::uint8_t {
  kAllReduce,
  kReduceScatter,
  kNodeReduceScatter,
  kAllGather,
  kBroadcast,
  kExchange,
  kBarrier
};

struct Call {
  Collective kind = Collective::kBarrier;
  std::uint64_t sequence = 0;  // the communicator's n-th call, from 0
  Span data = {};
  // reduce_scatter and all_gather: [size + 1]; node_reduce_scatter: [shards + 1]
  std::vector<std::size_t> offsets = {};
  Wire wire = {};          // node_reduce_scatter only
  int root = 0;            // broadcast only
  std::string bytes = {};  // exchange only
};

// InternalError where the arguments are not what Communicator demands in a group of `size` ranks.
void check_arguments(const Call& call, int size);

// Whether two ranks called the same: all but the data's address and the exchanged bytes.
bool matches(const Call& a, const Call& b);

// "all_reduce #17 (1024 f32)"
std::string describe(const Call& call);

// "rank 2 of 4"
std::string describe_rank(int rank, int size);

// A request that completes here and now.
Request complete_now();

// Offsets that give each of `size` ranks an equal share of `count`, the first ones one more.
std::vector<std::size_t> even_offsets(std::size_t count, int size);

}  // namespace trireme
