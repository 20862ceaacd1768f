// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>

#include "base/philox.hpp"
#include "data/datasets.hpp"

namespace trireme {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 28;  // of a sample

// What bytes are drawn for: `a` of draw(). Samples of the two splits differ, the patterns do not.
enum class Part : std::uint64_t { kPattern, kTrain, kTest };

class Synthetic final : public Dataset {
 public:
  Synthetic(const Options& options, const DatasetContext& context)
      : seed_(context.seed),
        part_(context.split == Split::kTrain ? Part::kTrain : Part::kTest),
        size_(options.get<std::int64_t>("samples")) {
    spec_.input_shape = options.get<std::vector<std::int64_t>>("shape");
    spec_.input_dtype = spec_.input_shape.size() == 3 ? DType::kU8 : DType::kF32;
    spec_.num_classes = options.get<std::int64_t>("classes");
    std::int64_t elements = 1;
    for (const std::int64_t side : spec_.input_shape) {
      if (__builtin_mul_overflow(elements, side, &elements) || elements > kMaxElements) {
        throw DataError("data.shape makes samples of more than " + std::to_string(kMaxElements) +
                        " elements; use a smaller one");
      }
    }
    elements_ = static_cast<std::size_t>(elements);
  }

  const DatasetSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return size_; }

  void read(std::int64_t index, std::span<std::byte> input,
            std::span<std::byte> target) const override {
    // Every class comes up equally often, in an order that an unshuffled reader does not mind.
    const std::int64_t label = index % spec_.num_classes;
    for (std::size_t at = 0; at < elements_; at += 16) {
      const auto pattern = bytes(Part::kPattern, label, at);
      const auto noise = bytes(part_, index, at);
      for (std::size_t i = 0; i < std::min<std::size_t>(16, elements_ - at); ++i) {
        write(input, at + i, (pattern[i] + noise[i]) / 2);
      }
    }
    std::memcpy(target.data(), &label, sizeof(label));
  }

  std::string describe(std::int64_t index) const override {
    return "synthetic sample " + std::to_string(index);
  }

 private:
  // 16 random bytes for the elements from `at` of this pattern or sample.
  std::array<std::uint8_t, 16> bytes(Part part, std::int64_t which, std::size_t at) const {
    const auto words = draw(seed_, Stream::kSynthetic, static_cast<std::uint64_t>(part),
                            static_cast<std::uint64_t>(which) << 24 | at / 16);
    std::array<std::uint8_t, 16> result{};
    std::memcpy(result.data(), words.data(), result.size());
    return result;
  }

  void write(std::span<std::byte> input, std::size_t at, int value) const {
    if (spec_.input_dtype == DType::kU8) {
      input[at] = static_cast<std::byte>(value);
      return;
    }
    const float scaled = static_cast<float>(value) / 127.5F - 1.0F;
    std::memcpy(input.data() + at * sizeof(scaled), &scaled, sizeof(scaled));
  }

  std::uint64_t seed_;
  Part part_;
  std::int64_t size_;
  std::size_t elements_ = 0;  // of a sample
  DatasetSpec spec_;
};

}  // namespace

DatasetKind synthetic() {
  return {"synthetic",
          "Noise around one random pattern a class; needs no files.",
          {{"samples", std::int64_t{1024}, "Samples of each split.", 1, 4294967296},
           {"classes", std::int64_t{10}, "Classes, equally frequent.", 1, 1e6},
           {"shape", std::vector<std::int64_t>{3, 32, 32},
            "Shape of a sample: [C, H, W] is an image of bytes, others are floats in [-1, 1].", 1,
            1e6}},
          [](const Options& options, const DatasetContext& context) {
            return std::make_shared<const Synthetic>(options, context);
          }};
}

}  // namespace trireme
