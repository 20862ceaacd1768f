// SPDX-License-Identifier: Apache-2.0
// How fast gradients travel here, and what that means for the size of buckets.
#pragma once

#include <cstddef>
#include <string>

#include "trireme/communicator.hpp"

namespace trireme {

// A sum of n bytes takes latency_s + n * seconds_per_byte (the model of Hockney 1994).
struct Link {
  double latency_s = 0;
  double seconds_per_byte = 0;
};

// Collective over all: times a small and a large sum, as gradients are summed, over the ranks of
// `sums`: a group of ranks of `all`, for each rank its own. Every rank of `all` gets the same
// numbers, the slowest rank's. Takes some 20 ms on a node, up to a second over a slow link. The
// large one is of total_bytes or less, 1 MiB at least.
Link measure_link(Communicator& sums, Communicator& all, std::size_t total_bytes);

// Gradients of total_bytes cut into buckets of b bytes cost total/b latencies, and the last bucket,
// b * seconds_per_byte, is seen in full after backward: their sum is smallest where b is the square
// root of total * latency / seconds_per_byte. Between 64 KiB and 25 MB, and no more than all.
std::size_t best_bucket_bytes(const Link& link, std::size_t total_bytes);

// "0.15 ms and 8.47 ms more a MB (0.118 GB/s)"
std::string to_text(const Link& link);

}  // namespace trireme
