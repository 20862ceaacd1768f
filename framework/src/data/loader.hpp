// SPDX-License-Identifier: Apache-2.0
// Decoded, augmented micro-batches, ahead of the trainer. No torch here: plain bytes that the
// trainer wraps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/augment.hpp"
#include "data/sampler.hpp"
#include "trireme/dataset.hpp"

namespace trireme {

// One micro-batch of one rank.
struct HostBatch {
  std::int64_t samples = 0;
  std::vector<std::int64_t> sample_ids;  // [row]
  // Images: float32 (N, H, W, C) where channels_last, else (N, C, H, W): augmented, scaled to [0,
  // 1], normalised. Others: as the data set gives them, (N, input_shape...).
  std::vector<std::byte> input;
  std::vector<std::byte>
      target;  // (N, target_shape...) of target_dtype; class and token ids are in range
};

// Yields the micro-batches of steps first_step .. end_step-1 of one rank in order, decoded by
// `workers` threads at most `prefetch` micro-batches ahead; several threads share one micro-batch.
// The result does not depend on either number. Not thread-safe.
class Loader {
 public:
  struct Settings {
    AugmentOptions augment = {};
    std::int64_t workers = 1;   // >= 1
    std::int64_t prefetch = 2;  // >= 1
  };
  // ConfigError where the settings do not fit the data set (see Augmenter).
  Loader(std::shared_ptr<const Dataset> dataset, Sampler sampler, const Settings& settings,
         std::int64_t first_step, std::int64_t end_step);
  ~Loader();  // stops the workers: waits for the few samples that they are decoding, not for whole
              // batches

  // The next micro-batch; waits until it is decoded. A joint one may be empty. A step in which this
  // rank has none is skipped: ask sampler.micro_batches for the count. Asking for more than there
  // are is an InternalError. Throws what decoding threw: DataError that names the sample, for the
  // first bad row of the micro-batch. That micro-batch is then lost, and the next call goes on with
  // the one after it.
  HostBatch next();
  // How long next() has waited so far.
  double waited_ms() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// `samples` in order, without augmentation (images normalised only, flip and crop of the options
// are ignored): for a trial and Model::init_from_samples. DataError that names the sample;
// ConfigError as the Loader's.
HostBatch read_batch(const Dataset& dataset, std::span<const std::int64_t> samples,
                     const AugmentOptions& normalise);

// The part of a data set with these indices.
std::shared_ptr<const Dataset> subset(std::shared_ptr<const Dataset> whole,
                                      std::vector<std::int64_t> indices);

// Validation split: which indices are held out (chosen by seed, sorted) and which stay (sorted).
struct HeldOut {
  std::vector<std::int64_t> train, validation;
};
// Holds out round(fraction * num_samples), but at least one and not all; none for fraction 0.
// DataError where a fraction is asked of fewer than two samples.
HeldOut hold_out(std::int64_t num_samples, double fraction, std::uint64_t seed);

}  // namespace trireme
