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

constexpr std::size_t kSmallBytes = 16 << 10;
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

}  // namespace

Link measure_link(Communicator& communicator) {
  const double small = seconds_of_sum(communicator, kSmallBytes, 8);
  Link link;
  for (std::size_t size = kFirstLargeBytes; size <= kLastLargeBytes; size *= 4) {
    const double large = seconds_of_sum(communicator, size, 4);
    link.seconds_per_byte = std::max(large - small, 1e-9) / static_cast<double>(size - kSmallBytes);
    link.latency_s = std::max(small - link.seconds_per_byte * kSmallBytes, 1e-7);
    // Rank 0's numbers are everybody's, and so is what follows from them.
    std::string bytes(sizeof(link), '\0');
    std::memcpy(bytes.data(), &link, sizeof(link));
    std::memcpy(&link, communicator.exchange(bytes).front().data(), sizeof(link));
    if (link.seconds_per_byte * static_cast<double>(size) > kLongEnough) break;
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
  text << link.latency_s * 1e3 << " ms, " << 1e-9 / link.seconds_per_byte << " GB/s";
  return text.str();
}

}  // namespace trireme
