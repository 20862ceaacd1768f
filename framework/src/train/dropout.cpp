// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>

#include "base/philox.hpp"
#include "trireme/error.hpp"
#include "trireme/model.hpp"

namespace trireme {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Keeps an element where its 32 random bits reach the threshold. One sample's elements draw four at
// a time from a key that belongs to (seed, step, sample); the counter is (element / 4, layer).
void draw_mask(const ForwardContext& context, std::size_t row, std::uint64_t layer,
               std::uint64_t threshold, std::span<std::uint8_t> mask) {
  const Words sample_key =
      draw(context.seed, Stream::kDropout, static_cast<std::uint64_t>(context.step),
           static_cast<std::uint64_t>(context.sample_ids[row]));
  const std::uint64_t key = sample_key[0] | static_cast<std::uint64_t>(sample_key[1]) << 32;
  for (std::size_t begin = 0; begin < mask.size(); begin += 4) {
    const std::uint64_t block = begin / 4;
    const Words words = philox4x32(
        key, {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
              static_cast<std::uint32_t>(layer), static_cast<std::uint32_t>(layer >> 32)});
    const std::size_t count = std::min<std::size_t>(4, mask.size() - begin);
    for (std::size_t i = 0; i < count; ++i) mask[begin + i] = words[i] >= threshold;
  }
}

}  // namespace

Dropout::Dropout(double probability) : probability_(probability) {
  TRIREME_ASSERT(probability >= 0 && probability < 1, "a dropout probability lies in [0, 1)");
}

torch::Tensor Dropout::forward(const torch::Tensor& input) {
  if (!is_training() || probability_ == 0 || input.numel() == 0) return input;
  TRIREME_ASSERT(context_ != nullptr, "Dropout was not bound to the trainer's ForwardContext");
  const std::size_t samples = context_->sample_ids.size();
  const std::size_t elements = static_cast<std::size_t>(input.numel());
  TRIREME_ASSERT(samples > 0 && input.size(0) % static_cast<std::int64_t>(samples) == 0,
                 "Dropout wants equally many rows of each sample");
  // In the logical order of the input's dimensions, whatever its memory layout.
  const torch::Tensor mask = at::empty(input.sizes(), at::TensorOptions().dtype(at::kByte));
  const std::span<std::uint8_t> bytes(mask.mutable_data_ptr<std::uint8_t>(), elements);
  const auto threshold = static_cast<std::uint64_t>(std::ceil(probability_ * 0x1p32));
  const std::size_t length = elements / samples;
  for (std::size_t row = 0; row < samples; ++row) {
    draw_mask(*context_, row, layer_, threshold, bytes.subspan(row * length, length));
  }
  // One byte an element travels to a GPU, not four.
  return input * mask.to(input.device()).to(input.options()).mul_(1 / (1 - probability_));
}

}  // namespace trireme
