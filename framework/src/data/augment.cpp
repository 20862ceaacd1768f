// SPDX-License-Identifier: Apache-2.0
#include "data/augment.hpp"

#include <algorithm>
#include <utility>

#include "base/philox.hpp"

namespace trireme {
namespace {

// One value a channel, in float32 as PyTorch keeps them.
std::vector<float> per_channel(const std::string& key, const std::vector<double>& values,
                               float default_value, std::int64_t channels) {
  if (values.empty()) {
    return std::vector<float>(static_cast<std::size_t>(channels), default_value);
  }
  if (std::cmp_not_equal(values.size(), channels)) {
    throw ConfigError("data." + key + " has " + std::to_string(values.size()) +
                      " values, but the images have " + std::to_string(channels) +
                      " channels; give one value a channel");
  }
  std::vector<float> result;
  for (const double value : values) {
    result.push_back(static_cast<float>(value));
  }
  return result;
}

std::vector<std::array<float, 256>> normalisation_table(const AugmentOptions& options,
                                                        std::int64_t channels) {
  const std::vector<float> mean = per_channel("mean", options.mean, 0.0F, channels);
  const std::vector<float> deviation = per_channel("std", options.std, 1.0F, channels);
  std::vector<std::array<float, 256>> table(static_cast<std::size_t>(channels));
  for (std::size_t c = 0; c < table.size(); ++c) {
    if (!(deviation[c] > 0)) {
      throw ConfigError("data.std of channel " + std::to_string(c) + " is " +
                        std::to_string(deviation[c]) + "; it must be above 0");
    }
    for (std::size_t v = 0; v < 256; ++v) {
      table[c][v] = (static_cast<float>(v) / 255.0F - mean[c]) / deviation[c];
    }
  }
  return table;
}

}  // namespace

AugmentOptions without_augmentation(AugmentOptions options) {
  options.flip = "none";
  options.crop_padding = 0;
  return options;
}

Augmenter::Augmenter(const DatasetSpec& spec, const AugmentOptions& options)
    : padding_(options.crop_padding), channels_last_(options.channels_last), seed_(options.seed) {
  TRIREME_ASSERT(spec.input_dtype == DType::kU8 && spec.input_shape.size() == 3,
                 "images are bytes of shape {C, H, W}");
  channels_ = spec.input_shape[0];
  height_ = spec.input_shape[1];
  width_ = spec.input_shape[2];
  if (options.flip == "random" || options.flip == "alternate") {
    flip_ = options.flip == "random" ? Flip::kRandom : Flip::kAlternate;
  } else if (options.flip != "none") {
    throw ConfigError("data.flip is '" + options.flip + "'; expected none, random or alternate");
  }
  if (options.crop_fill != "zero" && options.crop_fill != "reflect") {
    throw ConfigError("data.crop_fill is '" + options.crop_fill + "'; expected zero or reflect");
  }
  reflect_ = options.crop_fill == "reflect";
  if (padding_ < 0 || (reflect_ && padding_ >= std::min(height_, width_))) {
    throw ConfigError("data.crop_padding is " + std::to_string(padding_) + ", but images of " +
                      std::to_string(height_) + "x" + std::to_string(width_) +
                      " can be reflected by 0 to " + std::to_string(std::min(height_, width_) - 1) +
                      " pixels");
  }
  normalised_ = normalisation_table(options, channels_);
}

std::size_t Augmenter::output_bytes() const {
  return static_cast<std::size_t>(channels_ * height_ * width_) * sizeof(float);
}

Augmenter::View Augmenter::view_of(std::int64_t epoch, std::int64_t sample) const {
  const auto e = static_cast<std::uint64_t>(epoch);
  const auto s = static_cast<std::uint64_t>(sample);
  View view;
  if (flip_ == Flip::kRandom) {
    view.mirrored = (draw(seed_, Stream::kFlip, e, s)[0] & 1U) != 0;
  } else if (flip_ == Flip::kAlternate) {
    view.mirrored = ((draw(seed_, Stream::kFlip, 0, s)[0] ^ e) & 1U) != 0;
  }
  if (padding_ > 0) {
    const auto words = draw(seed_, Stream::kCrop, e, s);
    const auto offsets = static_cast<std::uint64_t>(2 * padding_ + 1);
    view.shift_y = std::int64_t{below(words[0], offsets)} - padding_;
    view.shift_x = std::int64_t{below(words[1], offsets)} - padding_;
  }
  return view;
}

std::vector<std::int32_t> Augmenter::source_indices(std::int64_t length, std::int64_t shift) const {
  std::vector<std::int32_t> indices(static_cast<std::size_t>(length));
  for (std::int64_t i = 0; i < length; ++i) {
    std::int64_t source = i + shift;
    if (source < 0 || source >= length) {
      // -1 mirrors to 1 and length to length - 2: the edge itself is not repeated.
      source = !reflect_ ? -1 : source < 0 ? -source : 2 * (length - 1) - source;
    }
    indices[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(source);
  }
  return indices;
}

void Augmenter::apply(std::span<const std::byte> image, std::optional<std::int64_t> epoch,
                      std::int64_t sample, std::span<std::byte> output) const {
  TRIREME_ASSERT(image.size() * sizeof(float) == output_bytes() && output.size() == output_bytes(),
                 "image and output have the size of the data set's samples");
  const View view = epoch ? view_of(*epoch, sample) : View{};
  const std::vector<std::int32_t> rows = source_indices(height_, view.shift_y);
  std::vector<std::int32_t> columns = source_indices(width_, view.shift_x);
  if (view.mirrored) {  // the crop of the mirrored image
    for (std::int32_t& column : columns) {
      column = column < 0 ? column : static_cast<std::int32_t>(width_) - 1 - column;
    }
  }
  const std::int64_t pixel_stride = channels_last_ ? channels_ : 1;
  const std::int64_t plane_stride = channels_last_ ? 1 : height_ * width_;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(image.data());
  auto* floats = reinterpret_cast<float*>(output.data());
  for (std::int64_t c = 0; c < channels_; ++c) {
    const std::array<float, 256>& table = normalised_[static_cast<std::size_t>(c)];
    const std::uint8_t* plane = bytes + c * height_ * width_;
    float* out = floats + c * plane_stride;
    for (const std::int32_t row : rows) {
      const std::uint8_t* source = plane + std::max(row, 0) * width_;
      for (const std::int32_t column : columns) {
        *out = table[row < 0 || column < 0 ? 0 : source[column]];
        out += pixel_stride;
      }
    }
  }
}

}  // namespace trireme
