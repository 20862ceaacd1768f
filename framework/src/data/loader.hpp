// SPDX-License-Identifier: Apache-2.0
// Decoded, augmented micro-batches, ahead of the trainer. No torch here: plain bytes that the trainer wraps.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "config/config.hpp"
#include "trireme/dataset.hpp"

namespace trireme {

// One micro-batch of one rank.
struct HostBatch {
  std::int64_t samples = 0;
  std::vector<std::int64_t> sample_ids;  // [row]
  // Images: float32 (N, H, W, C) where channels_last, else (N, C, H, W): augmented, scaled to [0, 1], normalised.
  // Others: as the data set gives them, (N, input_shape...).
  std::vector<std::byte> input;
  std::vector<std::byte> target;  // (N, target_shape...) of target_dtype
};

// Which samples one rank takes, in which micro-batches: pure functions of (seed, epoch, step), so the state of the input
// is a cursor. World size changes only who takes a sample.
struct SamplerOptions {
  std::int64_t num_samples = 0;
  std::int64_t global_batch = 0;
  std::int64_t micro_batch = 0;  // 0: the rank's whole share
  std::uint64_t seed = 0;
  bool shuffle = true;
  bool drop_last = false;
  int rank = 0;
  int world_size = 1;
};

class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options);  // DataError where drop_last leaves no step
  std::int64_t steps_per_epoch() const;
  // Samples of the global batch of step `step` (0-based over the whole run), over all ranks.
  std::int64_t global_samples(std::int64_t step) const;
  // This rank's sample ids at that step, micro-batch by micro-batch; may be empty when there are fewer samples than ranks.
  // Rank r takes rows [r * n / world, (r + 1) * n / world) of the n rows of the global batch.
  std::vector<std::vector<std::int64_t>> micro_batches(std::int64_t step) const;

 private:
  SamplerOptions options_;
  // The order of the epoch last asked for.
  mutable std::int64_t order_epoch_ = -1;
  mutable std::vector<std::int64_t> order_;
};

struct AugmentOptions {
  std::vector<double> mean, std;  // [channel]; empty: 0 and 1
  std::string flip = "none";      // none | random | alternate
  std::int64_t crop_padding = 0;
  std::string crop_fill = "zero";
  bool channels_last = false;
  std::uint64_t seed = 0;
};

// Yields the micro-batches of steps first_step .. end_step-1 of one rank in order, decoded by `workers` threads at most
// `prefetch` micro-batches ahead. The result does not depend on either number. An exception in a worker is thrown by the
// next() that would have returned its batch. Not thread-safe.
class Loader {
 public:
  struct Settings {
    AugmentOptions augment;
    std::int64_t workers = 1;
    std::int64_t prefetch = 2;
  };
  Loader(std::shared_ptr<const Dataset> dataset, Sampler sampler, Settings settings,
         std::int64_t first_step, std::int64_t end_step);
  ~Loader();  // stops the workers

  // The next micro-batch. A step in which this rank has none is skipped: ask sampler.micro_batches for the count.
  HostBatch next();
  // How long next() has waited so far.
  double waited_ms() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// `samples` in order, without augmentation (images normalised only): for evaluation and Model::init_from_samples.
HostBatch read_batch(const Dataset& dataset, std::span<const std::int64_t> samples,
                     const AugmentOptions& normalise);

// The part of a data set with these indices.
std::shared_ptr<const Dataset> subset(std::shared_ptr<const Dataset> whole, std::vector<std::int64_t> indices);

// Validation split: which indices are held out (chosen by seed, sorted) and which stay (sorted).
struct HeldOut {
  std::vector<std::int64_t> train, validation;
};
HeldOut hold_out(std::int64_t num_samples, double fraction, std::uint64_t seed);

}  // namespace trireme
