// SPDX-License-Identifier: Apache-2.0
#include "app/bucket_size.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "app/estimate.hpp"
#include "base/text.hpp"

namespace trireme {
namespace {

constexpr double kUnmeasuredMegabytes = 25;

std::string begin_text(double megabytes) {
  return "gradients travel in buckets of " +
         human_bytes(static_cast<std::int64_t>(std::lround(megabytes * 1e6))) +
         " (parallel.bucket_mb)";
}

BucketSize unmeasured(const std::string& why) {
  return {.megabytes = kUnmeasuredMegabytes,
          .link = std::nullopt,
          .text = begin_text(kUnmeasuredMegabytes) + "; not measured: " + why};
}

}  // namespace

BucketSize choose_bucket_size(const ParallelConfig& parallel, Communicator& gradients,
                              Communicator& control, std::size_t total_bytes) {
  if (gradients.size() == 1) {
    return {.megabytes = kUnmeasuredMegabytes, .link = std::nullopt, .text = {}};
  }
  if (parallel.compression == "powersgd")
    return unmeasured("parallel.compression: powersgd has this size");
  const Placement placement = gradients.placement();
  const bool apart = parallel.sync_every > 1 && placement.num_nodes > 1;
  if (apart && placement.max_local_size == 1)
    return unmeasured("with parallel.sync_every, and one rank a node, no gradients are summed");
  const std::unique_ptr<Communicator> node = apart ? gradients.split_by_node() : nullptr;
  const Link link = measure_link(apart ? *node : gradients, control);
  // Rounded to 10 kB: a number that can be read and written.
  const auto best = static_cast<double>(best_bucket_bytes(link, total_bytes));
  const double megabytes = std::max(1.0, std::round(best / 1e4)) / 100;
  const std::string ranks =
      apart ? "the ranks of a node"
            : plural(gradients.size(), "rank") + " on " + plural(placement.num_nodes, "node");
  return {.megabytes = megabytes,
          .link = link,
          .text = begin_text(megabytes) + ", chosen for the link: a sum over " + ranks +
                  " was measured to take " + to_text(link)};
}

}  // namespace trireme
