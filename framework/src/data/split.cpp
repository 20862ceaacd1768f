// SPDX-License-Identifier: Apache-2.0
// Parts of a data set: subset and hold_out.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/philox.hpp"
#include "data/loader.hpp"

namespace trireme {
namespace {

class Subset final : public Dataset {
 public:
  Subset(std::shared_ptr<const Dataset> whole, std::vector<std::int64_t> indices)
      : whole_(std::move(whole)), indices_(std::move(indices)) {
    TRIREME_ASSERT(!indices_.empty(), "a subset has samples");
    TRIREME_ASSERT(std::ranges::all_of(
                       indices_, [&](auto index) { return index >= 0 && index < whole_->size(); }),
                   "a subset's indices are in the whole");
  }
  const DatasetSpec& spec() const override { return whole_->spec(); }
  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  void read(std::int64_t index, std::span<std::byte> input,
            std::span<std::byte> target) const override {
    whole_->read(indices_.at(static_cast<std::size_t>(index)), input, target);
  }
  std::string describe(std::int64_t index) const override {
    return whole_->describe(indices_.at(static_cast<std::size_t>(index)));
  }

 private:
  std::shared_ptr<const Dataset> whole_;
  std::vector<std::int64_t> indices_;  // [index here] -> index in the whole
};

}  // namespace

std::shared_ptr<const Dataset> subset(std::shared_ptr<const Dataset> whole,
                                      std::vector<std::int64_t> indices) {
  return std::make_shared<Subset>(std::move(whole), std::move(indices));
}

HeldOut hold_out(std::int64_t num_samples, double fraction, std::uint64_t seed) {
  TRIREME_ASSERT(num_samples > 0 && fraction >= 0 && fraction < 1, "a share of some samples");
  if (fraction > 0 && num_samples < 2) {
    throw DataError("data.validation_fraction is " + std::to_string(fraction) +
                    ", but the training set has one sample: nothing can be held out; set it to 0");
  }
  std::vector<std::int64_t> order = permutation(num_samples, seed, Stream::kHoldOut, 0);
  const std::int64_t rounded = std::llround(fraction * static_cast<double>(num_samples));
  const std::int64_t count =
      fraction > 0 ? std::clamp<std::int64_t>(rounded, 1, num_samples - 1) : 0;
  HeldOut parts;
  parts.validation.assign(order.begin(), order.begin() + count);
  parts.train.assign(order.begin() + count, order.end());
  std::ranges::sort(parts.validation);
  std::ranges::sort(parts.train);
  return parts;
}

}  // namespace trireme
