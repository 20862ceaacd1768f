// SPDX-License-Identifier: Apache-2.0
// Which samples one rank takes, in which micro-batches: pure functions of (seed, epoch, step), so
// the state of the input is a cursor. World size changes only who takes a sample.
#pragma once

#include <cstdint>
#include <vector>

#include "base/philox.hpp"

namespace trireme {

struct SamplerOptions {
  std::int64_t num_samples = 0;   // 1 .. 2^32
  std::int64_t global_batch = 0;  // >= 1
  std::int64_t micro_batch = 0;   // of one rank; 0: its whole share
  // Ranks share out each micro-batch of world_size * micro_batch samples, instead of the global
  // batch: micro-batch m of all ranks together is that of one rank with world_size times the
  // micro_batch. All ranks then have equally many; the last one of a step may be empty on some.
  bool joint_micro_batches = false;
  std::uint64_t seed = 0;
  bool shuffle = true;  // a new order each epoch; else data-set order
  bool drop_last = false;
  int rank = 0;
  int world_size = 1;
};

// Not thread-safe: it keeps the order of the epoch last asked for (8 bytes a sample). Copies are
// independent.
class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options);  // DataError where drop_last leaves no step
  std::int64_t steps_per_epoch() const;
  // Samples of the global batch of step `step` (0-based over the whole run), over all ranks.
  std::int64_t global_samples(std::int64_t step) const;
  // This rank's sample ids at that step, micro-batch by micro-batch; may be none when there are
  // fewer samples than ranks. Rank r takes rows [r * n / world, (r + 1) * n / world) of the n rows
  // of the global batch, or of each joint micro-batch.
  std::vector<std::vector<std::int64_t>> micro_batches(std::int64_t step) const;

 private:
  void shuffle_for(std::int64_t epoch) const;
  std::vector<std::int64_t> ids(std::int64_t begin, std::int64_t end) const;  // [row - begin]

  SamplerOptions options_;
  mutable std::int64_t order_epoch_ = -1;
  mutable std::vector<std::int64_t> order_;  // [position in the epoch]
};

// 0 .. n-1 in an order that depends on (seed, stream, epoch) only: Fisher-Yates over Philox. n <=
// 2^32.
std::vector<std::int64_t> permutation(std::int64_t n, std::uint64_t seed, Stream stream,
                                      std::int64_t epoch);

}  // namespace trireme
