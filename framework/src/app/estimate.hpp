// SPDX-License-Identifier: Apache-2.0
// What a run will take, before it starts: for --dry-run.
#pragma once

#include <cstdint>
#include <string>

#include "app/session.hpp"

namespace trireme {

struct Estimate {
  std::int64_t trained_parameters = 0, frozen_parameters = 0;
  // A rank: parameters, gradients, its share of the optimizer's state and of what compression owes;
  // without activations.
  std::int64_t memory_bytes = 0;
  std::int64_t residual_bytes = 0;    // of it: what compression owes
  std::int64_t checkpoint_bytes = 0;  // one checkpoint on disk
  RunLength length;
};

// How many ranks share what.
struct RankCounts {
  int world = 1;
  int node = 1;  // of them on this rank's node
  int num_nodes = 1;
};
RankCounts counts_of(const Communicator& world);

Estimate estimate(const Session& session, const RankCounts& ranks);
std::string to_text(const Estimate& estimate, const Session& session, const RankCounts& ranks);
// Both, for the ranks of `world`.
std::string estimate_text(const Session& session, const Communicator& world);

// "1.25 GB", "310 kB": powers of 1000.
std::string human_bytes(std::int64_t bytes);

}  // namespace trireme
