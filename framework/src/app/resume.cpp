// SPDX-License-Identifier: Apache-2.0
#include "app/resume.hpp"

#include <algorithm>
#include <span>

#include "base/text.hpp"

namespace trireme {
namespace {

constexpr const char* kMayChange[] = {
    "run.name", "run.device", "run.shared", "run.timeout", "run.time_*", "data.workers",
    "data.prefetch", "train.epochs", "train.max_steps", "train.eval_every_epochs",
    "train.eval_batch", "train.patience",
    // These decide no bit of what is learned.
    "train.update_in_backward", "parallel.shard_over", "checkpoint.*", "network.*", "log.*"};

// Nor do these, but for PowerSGD: where ranks cut a matrix follows from them.
constexpr const char* kBuckets[] = {"parallel.bucket_mb", "parallel.edge_bucket_mb"};

bool is_one_of(std::span<const char* const> keys, const std::string& key) {
  return std::any_of(keys.begin(), keys.end(),
                     [&](const char* pattern) { return glob_match(pattern, key); });
}

}  // namespace

void require_resumable(const Config& before, const Config& after) {
  std::string refused;
  for (const ConfigDifference& difference : compare_configs(before, after)) {
    const bool allowed =
        is_one_of(kMayChange, difference.key) ||
        (before.parallel.compression != "powersgd" && is_one_of(kBuckets, difference.key));
    if (!allowed)
      refused += "\n  " + difference.key + ": " + difference.before + " -> " + difference.after;
  }
  if (refused.empty()) return;
  throw ConfigError(
      "the run was made with another configuration, and these changes would make it another run:" +
      refused + "\ntake them back, start a new run (another run.dir), or add --allow-changes");
}

bool stretches_schedule(const Config& before, const Config& after) {
  const bool same_length =
      before.train.epochs == after.train.epochs && before.train.max_steps == after.train.max_steps;
  return !same_length && after.schedule.name != "constant" && after.schedule.name != "step" &&
         after.schedule.duration == 0;
}

std::string warning_of_nodes(int before, int now, const std::string& key) {
  if (before == 0 || before == now || key.empty()) return {};
  return "the checkpoint was made on " + plural(before, "node") + ", and this run is on " +
         plural(now, "node") + ": " + key +
         " acts between nodes, so that the run goes on otherwise than it would have there" +
         (now == 1 && key == "parallel.compression" ? ", and without what it may owe" : "");
}

void require_same_split(const Config& trained, const Config& now) {
  if (trained.data.validation_fraction == 0) {
    throw ConfigError("the run held out no validation split; use --split test");
  }
  if (trained.data.validation_fraction == now.data.validation_fraction &&
      trained.run.seed == now.run.seed) {
    return;
  }
  throw ConfigError(
      "data.validation_fraction and run.seed choose the validation split: with other values than "
      "the run's it would hold samples that were trained on; leave them as they are");
}

}  // namespace trireme
