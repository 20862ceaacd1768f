// SPDX-License-Identifier: Apache-2.0
#include "parallel/link.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <sstream>
#include <vector>

#include "comm/call.hpp"

namespace trireme {
namespace {

// The small sum: so small that its bytes take no time, since what does not fill a message, or fits
// a cache, moves at another rate than the bulk.
constexpr std::size_t kSmallBytes = 256;
// The large sum: beyond the caches where it is fast, and no longer than need be where it is slow.
constexpr std::size_t kFirstLargeBytes = 1 << 20, kLastLargeBytes = 16 << 20;
constexpr double kLongEnough = 0.02;  // seconds

// The shortest of a few: what else happens on the machine only lengthens one.
double seconds_of_sum(Communicator& communicator, std::size_t size_bytes, int repeats) {
  const std::size_t count = size_bytes / sizeof(float);
  const Buffer buffer = communicator.allocate(size_bytes);
  const auto offsets = even_offsets(count, communicator.placement().max_local_size);
  double shortest = 1e9;
  for (int i = 0; i < repeats; ++i) {
    communicator.barrier();
    const auto start = std::chrono::steady_clock::now();
    Request sum =
        communicator.node_reduce_scatter({buffer.data(), count, DType::kF32}, offsets, /*wire=*/{});
    sum.wait();
    const std::chrono::duration<double> passed = sum.completed_at() - start;
    if (i > 0) shortest = std::min(shortest, passed.count());  // the first one warms up
  }
  return shortest;
}

// The longest of all ranks' times.
double slowest(Communicator& all, double seconds) {
  std::string bytes(sizeof(seconds), '\0');
  std::memcpy(bytes.data(), &seconds, sizeof(seconds));
  for (const std::string& others : all.exchange(bytes)) {
    double other = 0;
    std::memcpy(&other, others.data(), sizeof(other));
    seconds = std::max(seconds, other);
  }
  return seconds;
}

}  // namespace

Link measure_link(Communicator& sums, Communicator& all, std::size_t total_bytes) {
  const double small = slowest(all, seconds_of_sum(sums, kSmallBytes, 8));
  Link link{.latency_s = small, .seconds_per_byte = 0};
  for (std::size_t size = kFirstLargeBytes; size <= kLastLargeBytes; size *= 4) {
    if (size > kFirstLargeBytes && size > total_bytes) break;
    const double large = slowest(all, seconds_of_sum(sums, size, 4));
    link.seconds_per_byte = std::max(large - small, 1e-9) / static_cast<double>(size - kSmallBytes);
    if (large > kLongEnough) break;
  }
  return link;
}

std::size_t best_bucket_bytes(const Link& link, std::size_t total_bytes) {
  constexpr double kLeast = 64 << 10, kMost = 25e6;
  const auto total = static_cast<double>(total_bytes);
  const double best = std::sqrt(total * link.latency_s / link.seconds_per_byte);
  return static_cast<std::size_t>(
      std::clamp(best, kLeast, std::max(kLeast, std::min(kMost, total))));
}

std::string to_text(const Link& link) {
  std::ostringstream text;
  text.precision(3);
  text << link.latency_s * 1e3 << " ms and " << link.seconds_per_byte * 1e9 << " ms more a MB ("
       << 1e-9 / link.seconds_per_byte << " GB/s)";
  return text.str();
}

}  // namespace trireme
