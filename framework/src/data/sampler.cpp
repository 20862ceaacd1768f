// SPDX-License-Identifier: Apache-2.0
#include "data/sampler.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

#include "base/philox.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

constexpr std::int64_t kMostSamples = std::int64_t{1} << 32;  // what 32 random bits can choose from

}  // namespace

std::vector<std::int64_t> permutation(std::int64_t n, std::uint64_t seed, Stream stream,
                                      std::int64_t epoch) {
  TRIREME_ASSERT(n >= 0 && n <= kMostSamples, "a permutation has at most 2^32 elements");
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::array<std::uint32_t, 4> words{};
  for (std::size_t left = order.size(); left > 1; --left) {
    const std::size_t drawn = order.size() - left;
    if (drawn % 4 == 0) {
      words = draw(seed, stream, static_cast<std::uint64_t>(epoch), drawn / 4);
    }
    std::swap(order[left - 1], order[below(words[drawn % 4], left)]);
  }
  return order;
}

Sampler::Sampler(const SamplerOptions& options) : options_(options) {
  TRIREME_ASSERT(options.num_samples > 0, "a sampler needs samples");
  TRIREME_ASSERT(options.global_batch > 0 && options.micro_batch >= 0, "batch sizes are positive");
  TRIREME_ASSERT(options.rank >= 0 && options.rank < options.world_size, "rank is in the world");
  if (options.num_samples > kMostSamples) {
    throw DataError("the data set has " + std::to_string(options.num_samples) +
                    " samples; at most " + std::to_string(kMostSamples) + " are possible");
  }
  if (steps_per_epoch() == 0) {
    throw DataError("the data set has " + std::to_string(options.num_samples) +
                    " samples, fewer than one global batch of " +
                    std::to_string(options.global_batch) +
                    ", and data.drop_last leaves out the incomplete one: no step is left; lower "
                    "train.global_batch or set data.drop_last: false");
  }
}

std::int64_t Sampler::steps_per_epoch() const {
  const std::int64_t whole = options_.num_samples / options_.global_batch;
  const bool rest = options_.num_samples % options_.global_batch != 0;
  return rest && !options_.drop_last ? whole + 1 : whole;
}

std::int64_t Sampler::global_samples(std::int64_t step) const {
  TRIREME_ASSERT(step >= 0, "steps count from 0");
  const std::int64_t begin = step % steps_per_epoch() * options_.global_batch;
  return std::min(options_.global_batch, options_.num_samples - begin);
}

std::vector<std::vector<std::int64_t>> Sampler::micro_batches(std::int64_t step) const {
  const std::int64_t first = step % steps_per_epoch() * options_.global_batch;
  const std::int64_t last = first + global_samples(step);
  // This rank's part of rows [begin, end).
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t rows = end - begin;
    return std::pair{begin + options_.rank * rows / options_.world_size,
                     begin + (options_.rank + 1) * rows / options_.world_size};
  };
  const std::int64_t stride = options_.micro_batch > 0 ? options_.micro_batch : last - first;
  if (options_.shuffle) shuffle_for(step / steps_per_epoch());
  std::vector<std::vector<std::int64_t>> batches;
  if (options_.joint_micro_batches) {
    const std::int64_t joint = stride * options_.world_size;
    for (std::int64_t at = first; at < last; at += joint) {
      const auto [begin, end] = part(at, std::min(at + joint, last));
      batches.push_back(ids(begin, end));
    }
  } else {
    const auto [begin, end] = part(first, last);
    for (std::int64_t at = begin; at < end; at += stride) {
      batches.push_back(ids(at, std::min(at + stride, end)));
    }
  }
  return batches;
}

std::vector<std::int64_t> Sampler::ids(std::int64_t begin, std::int64_t end) const {
  if (options_.shuffle) return {order_.begin() + begin, order_.begin() + end};
  std::vector<std::int64_t> rows(static_cast<std::size_t>(end - begin));
  std::iota(rows.begin(), rows.end(), begin);
  return rows;
}

void Sampler::shuffle_for(std::int64_t epoch) const {
  if (order_epoch_ == epoch) return;
  order_ = permutation(options_.num_samples, options_.seed, Stream::kOrder, epoch);
  order_epoch_ = epoch;
}

}  // namespace trireme
