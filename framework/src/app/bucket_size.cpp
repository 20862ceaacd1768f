// SPDX-License-Identifier: Apache-2.0
#include "app/bucket_size.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "app/estimate.hpp"
#include "base/text.hpp"
#include "comm/phase.hpp"

namespace trireme {
namespace {

constexpr double kUnmeasuredMegabytes = 25;

std::string begin_text(double megabytes) {
  return "gradients travel in buckets of " +
         human_bytes(static_cast<std::int64_t>(std::lround(megabytes * 1e6))) +
         " (parallel.bucket_mb)";
}

// Of the parameters that make_bucket_plan() gives a bucket of their own; "" where there are none.
std::string larger_text(double megabytes, std::span<const std::size_t> parameter_bytes) {
  const auto limit = static_cast<std::size_t>(std::lround(megabytes * 1e6));
  const auto larger = std::ranges::count_if(parameter_bytes, [&](auto b) { return b > limit; });
  if (larger == 0) return {};
  const std::size_t largest = std::ranges::max(parameter_bytes);
  return "; " + plural(larger, "larger parameter") + (larger == 1 ? " travels" : " travel") +
         " whole, " + (larger == 1 ? "of " : "up to ") +
         human_bytes(static_cast<std::int64_t>(largest));
}

BucketSize unmeasured(const std::string& why) {
  return {.megabytes = kUnmeasuredMegabytes,
          .link = std::nullopt,
          .text = begin_text(kUnmeasuredMegabytes) + "; not measured: " + why};
}

}  // namespace

BucketSize given_bucket_size(double megabytes) {
  return {.megabytes = megabytes,
          .link = std::nullopt,
          .text = begin_text(megabytes) + ", as the configuration has it"};
}

std::string between_nodes_text(const ParallelConfig& parallel, int num_nodes) {
  if (num_nodes == 1) return {};
  const std::string nodes = plural(num_nodes, "node");
  if (parallel.sync_every > 1) {
    return "each of " + nodes + " trains for itself; every " + std::to_string(parallel.sync_every) +
           " steps they are averaged (parallel.sync_every)\n";
  }
  if (parallel.compression == "none") return {};
  const std::string how = parallel.compression == "powersgd"
                              ? "products of rank " + std::to_string(parallel.powersgd_rank) +
                                    " from step " + std::to_string(parallel.powersgd_start + 1) +
                                    " on"
                              : parallel.compression;
  return "between " + nodes + " gradients travel as " + how +
         " (parallel.compression: " + parallel.compression + ")\n";
}

BucketSize choose_bucket_size(const ParallelConfig& parallel, Communicator& gradients,
                              Communicator& control, std::span<const std::size_t> parameter_bytes) {
  if (gradients.size() == 1) {
    return {.megabytes = kUnmeasuredMegabytes, .link = std::nullopt, .text = {}};
  }
  if (parallel.compression == "powersgd")
    return unmeasured("parallel.compression: powersgd has this size" +
                      larger_text(kUnmeasuredMegabytes, parameter_bytes));
  const Placement placement = gradients.placement();
  const bool apart = parallel.sync_every > 1 && placement.num_nodes > 1;
  if (apart && placement.max_local_size == 1)
    return {.megabytes = kUnmeasuredMegabytes, .link = std::nullopt, .text = {}};
  const std::unique_ptr<Communicator> node = apart ? gradients.split_by_node() : nullptr;
  const std::size_t total_bytes =
      std::accumulate(parameter_bytes.begin(), parameter_bytes.end(), std::size_t{0});
  const Link link = in_phase("measuring the link", [&] {
    return measure_link(apart ? *node : gradients, control, total_bytes);
  });
  // Rounded to 10 kB: a number that can be read and written.
  const auto best = static_cast<double>(best_bucket_bytes(link, total_bytes));
  const double megabytes = std::max(1.0, std::round(best / 1e4)) / 100;
  const std::string ranks =
      apart ? "the ranks of a node"
            : plural(gradients.size(), "rank") + " on " + plural(placement.num_nodes, "node");
  return {.megabytes = megabytes,
          .link = link,
          .text = begin_text(megabytes) + ", chosen for the link: a sum over " + ranks +
                  " was measured to take " + to_text(link) +
                  larger_text(megabytes, parameter_bytes)};
}

}  // namespace trireme
