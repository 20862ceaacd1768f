// SPDX-License-Identifier: Apache-2.0
// Flip, crop, scale and normalise an image of bytes into floats, in one pass.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/dataset.hpp"

namespace trireme {

// The keys of the same names in section data: of the configuration.
struct AugmentOptions {
  std::vector<double> mean = {}, std = {};  // [channel]; empty: 0 and 1
  // none
  // random: mirrored with probability 1/2, drawn anew each epoch
  // alternate: drawn once for all epochs, and the mirror of that in odd epochs
  std::string flip = "none";
  std::int64_t crop_padding = 0;  // pixels; the crop has the image's own size
  std::string crop_fill =
      "zero";  // zero: black | reflect: mirrored without repeating the edge (numpy's 'reflect')
  bool channels_last = false;
  std::uint64_t seed = 0;
};

// The same without flip and crop.
AugmentOptions without_augmentation(AugmentOptions options);

// Immutable: several threads may use one.
class Augmenter {
 public:
  // spec: of images (kU8, {C, H, W}). ConfigError where the options do not fit it: another number
  // of channels in mean or std, std not above 0, a reflected border as wide as the image, an
  // unknown flip or fill.
  Augmenter(const DatasetSpec& spec, const AugmentOptions& options);

  std::size_t output_bytes() const;  // of one image: C * H * W floats

  // image: (C, H, W) bytes. output: C * H * W floats, (H, W, C) where channels_last, else (C, H,
  // W); each is (float(v) / 255 - mean) / std in float32, the same bits as PyTorch's ToTensor and
  // Normalize give. Flip, then crop, drawn from (seed, epoch, sample): nothing else. Without an
  // epoch neither is done.
  void apply(std::span<const std::byte> image, std::optional<std::int64_t> epoch,
             std::int64_t sample, std::span<std::byte> output) const;

 private:
  enum class Flip { kNone, kRandom, kAlternate };
  struct View {
    bool mirrored = false;
    std::int64_t shift_y = 0, shift_x = 0;  // of the crop's corner against the image's, pixels
  };
  View view_of(std::int64_t epoch, std::int64_t sample) const;
  // Source index of each index of one side of the crop; -1: fill with black.
  std::vector<std::int32_t> source_indices(std::int64_t length, std::int64_t shift) const;

  std::int64_t channels_, height_, width_;
  Flip flip_ = Flip::kNone;
  std::int64_t padding_;
  bool reflect_ = false;
  bool channels_last_;
  std::uint64_t seed_;
  std::vector<std::array<float, 256>> normalised_;  // [channel][byte]
};

}  // namespace trireme
