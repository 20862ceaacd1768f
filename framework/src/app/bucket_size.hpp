// SPDX-License-Identifier: Apache-2.0
// How large buckets of gradients are where the configuration leaves it open.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "config/config.hpp"
#include "parallel/link.hpp"
#include "trireme/communicator.hpp"

namespace trireme {

struct BucketSize {
  double megabytes = 0;      // for parallel.bucket_mb
  std::optional<Link> link;  // that it follows; nothing where none was measured
  // For the user: what was chosen, what was measured, and which parameters are larger; empty for
  // one rank.
  std::string text;
};

// Collective. The size that suits the link over which gradients of these many bytes, one a
// parameter, are summed while backward runs: between all ranks; with parallel.sync_every, over
// several nodes, between those of a node. 25 MB where nothing is measured: ranks sum nothing
// together, or parallel.compression is powersgd, which sums over nodes after backward, and whose
// numbers depend on how buckets cut the gradient. gradients and control: the same ranks.
BucketSize choose_bucket_size(const ParallelConfig& parallel, Communicator& gradients,
                              Communicator& control, std::span<const std::size_t> parameter_bytes);

// Of the size that the configuration gives, or the run has chosen before it was resumed.
BucketSize given_bucket_size(double megabytes);

// A line on what acts between these nodes; "" where nothing does.
std::string between_nodes_text(const ParallelConfig& parallel, int num_nodes);

}  // namespace trireme
