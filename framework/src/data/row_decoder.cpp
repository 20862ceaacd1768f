// SPDX-License-Identifier: Apache-2.0
#include "data/row_decoder.hpp"

#include <cstring>
#include <exception>
#include <new>
#include <string>

namespace trireme {

RowDecoder::RowDecoder(const Dataset& dataset, const AugmentOptions& options)
    : dataset_(dataset), spec_(dataset.spec()) {
  if (spec_.input_dtype == DType::kU8) {
    augmenter_.emplace(spec_, options);
  } else if (options.flip != "none" || options.crop_padding != 0 || !options.mean.empty() ||
             !options.std.empty()) {
    throw ConfigError(
        "data.flip, data.crop_padding, data.mean and data.std are for images, and this data set "
        "has "
        "none; leave them out");
  }
}

std::size_t RowDecoder::input_bytes() const {
  return augmenter_ ? augmenter_->output_bytes() : spec_.input_bytes();
}

std::size_t RowDecoder::target_bytes() const { return spec_.target_bytes(); }

void RowDecoder::decode(std::int64_t sample, std::optional<std::int64_t> epoch,
                        std::span<std::byte> input, std::span<std::byte> target,
                        std::vector<std::byte>& scratch) const {
  try {
    if (augmenter_) {
      scratch.resize(spec_.input_bytes());
      dataset_.read(sample, scratch, target);
      augmenter_->apply(scratch, epoch, sample, input);
    } else {
      dataset_.read(sample, input, target);
    }
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;                                 // no fault of the sample
  } catch (const std::exception& error) {  // of a data set that is not Trireme's own
    throw DataError("cannot read sample " + std::to_string(sample) + " (" +
                    dataset_.describe(sample) + "): " + error.what());
  }
  if (spec_.target_dtype == DType::kI64) {
    check_targets(sample, target);
  }
}

void RowDecoder::check_targets(std::int64_t sample, std::span<const std::byte> target) const {
  for (std::size_t at = 0; at < target.size(); at += sizeof(std::int64_t)) {
    std::int64_t id = 0;
    std::memcpy(&id, target.data() + at, sizeof(id));
    if (id < 0 || id >= spec_.num_classes) {
      throw DataError("sample " + std::to_string(sample) + " (" + dataset_.describe(sample) +
                      ") has the target " + std::to_string(id) + ", expected 0 to " +
                      std::to_string(spec_.num_classes - 1));
    }
  }
}

}  // namespace trireme
