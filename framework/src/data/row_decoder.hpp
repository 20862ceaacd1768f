// SPDX-License-Identifier: Apache-2.0
// One sample of a data set into one row of a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/augment.hpp"
#include "trireme/dataset.hpp"

namespace trireme {

// Immutable: several threads may use one. Holds a reference: the data set must live longer.
class RowDecoder {
 public:
  // ConfigError where the options do not fit the data set: see Augmenter; flip or crop of what is
  // no image.
  RowDecoder(const Dataset& dataset, const AugmentOptions& options);

  std::size_t input_bytes() const;   // of one row, as the model gets it
  std::size_t target_bytes() const;  // of one row

  // Reads the sample, checks that its class or token ids are in range, and augments it where there
  // is an epoch. scratch is memory to reuse between calls, one a thread. DataError names the
  // sample.
  void decode(std::int64_t sample, std::optional<std::int64_t> epoch, std::span<std::byte> input,
              std::span<std::byte> target, std::vector<std::byte>& scratch) const;

 private:
  void check_targets(std::int64_t sample, std::span<const std::byte> target) const;

  const Dataset& dataset_;
  DatasetSpec spec_;
  std::optional<Augmenter> augmenter_;  // of images
};

}  // namespace trireme
