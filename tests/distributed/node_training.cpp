// SPDX-License-Identifier: Apache-2.0
#include "node_training.hpp"

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/archive.hpp"
#include "delays.hpp"
#include "support/temporary_directory.hpp"
#include "support/training.hpp"

namespace trireme::test {
namespace {

struct Case {
  const char* name;
  const char* optimizer;
  const char* train;
  const char* parallel;
};

const char* const kAdamW = "name: adamw, lr: 0.01, weight_decay: 0.1";
const char* const kMuonAndAdamW =
    "name: adamw, lr: 0.01, groups: [{match: '*weight', name: muon, lr: 0.05, momentum: 0.6}]";

// Local SGD is left out where nodes differ in size: it refuses them.
const Case kCases[] = {
    {"fp16", kAdamW, "precision: fp32", "compression: fp16, error_feedback: true"},
    {"bf16 of matrices", kMuonAndAdamW, "precision: fp32", "compression: bf16"},
    {"powersgd", kAdamW, "precision: fp32", "compression: powersgd, powersgd_start: 4"},
    {"fp16, updates in backward", kAdamW, "precision: fp32, update_in_backward: true",
     "compression: fp16, error_feedback: true"},
    {"shards over the world, updates in backward", kAdamW, "update_in_backward: true",
     "shard_over: world"},
    {"local SGD", kAdamW, "", "sync_every: 3"},
    {"local SGD, updates in backward", kAdamW, "update_in_backward: true", "sync_every: 2"},
    {"local SGD, clipped", kAdamW, "clip_norm: 0.05", "sync_every: 3"},
    {"local SGD of matrices", kMuonAndAdamW, "", "sync_every: 2"},
};

Config config_for(const Case& test) {
  const auto and_more = [](const char* keys) {
    return *keys == 0 ? std::string() : std::string(", ") + keys;
  };
  return config_of(std::string("optimizer: {") + test.optimizer + R"(}
model: {name: mlp, hidden: [24, 16], dropout: 0.2}
data: {name: synthetic, samples: 96, classes: 4, shape: [3, 6, 6], flip: random, drop_last: true}
train: {max_steps: 20, global_batch: 12)" +
                   and_more(test.train) + R"(}
checkpoint: {every_steps: 6, keep: 100}
parallel: {bucket_mb: 0.002, edge_bucket_mb: 0.001)" +
                   and_more(test.parallel) + "}\n");
}

std::vector<std::byte> bytes_of(const CheckpointReader& reader, const ArrayInfo& array) {
  std::vector<std::byte> bytes(array.size_bytes());
  reader.read(array, bytes);
  return bytes;
}

// Empty, or the first array in which two checkpoints differ: parameters, the optimizer's state, and
// what compression owes.
std::string difference(const std::filesystem::path& a, const std::filesystem::path& b) {
  const CheckpointReader first(a), second(b);
  if (first.arrays() != second.arrays()) return "the list of arrays";
  for (const ArrayInfo& array : first.arrays()) {
    if (bytes_of(first, array) != bytes_of(second, array)) return "'" + array.name + "'";
  }
  return {};
}

std::string difference(const TrainingRun& a, const TrainingRun& b) {
  for (std::size_t step = 0; step < a.losses.size(); ++step) {
    if (a.losses[step] != b.losses.at(step)) return "the loss of step " + std::to_string(step + 1);
  }
  if (a.checkpoints.size() != b.checkpoints.size()) return "the number of checkpoints";
  for (std::size_t k = 0; k < a.checkpoints.size(); ++k) {
    const std::string array = difference(a.checkpoints[k].path, b.checkpoints[k].path);
    if (!array.empty()) return array + " after step " + std::to_string(a.checkpoints[k].step);
  }
  return {};
}

// world: late by the delays of `seed`.
bool trains_as_threads_do(Communicator& world, const Case& test, int ranks_per_node, int seed) {
  const bool first = world.rank() == 0;
  std::optional<TemporaryDirectory> directory;
  if (first) directory.emplace();
  const std::filesystem::path here =
      world.exchange(first ? directory->path().string() : "").front();
  const Config config = config_for(test);
  const TrainingRun processes = train_together(world, config, {.checkpoints = here / "processes"});
  if (!first) return true;
  const TrainingRun threads = train(
      config,
      {.ranks = world.size(), .ranks_per_node = ranks_per_node, .checkpoints = here / "threads"});
  const std::string where = difference(threads, processes);
  std::printf("%s, delays %d: %zu steps, %zu checkpoints, %s\n", test.name, seed,
              processes.losses.size(), processes.checkpoints.size(),
              where.empty() ? "equal to the bit" : (where + " differs").c_str());
  return where.empty();
}

}  // namespace

// What half width is for. Beside gradients, small sums travel, and checkpoints' arrays.
bool half_width_sends_half(Communicator& world) {
  const auto bytes_of = [&](const char* parallel) {
    const TrainingRun run =
        train_together(world, config_for({"", kAdamW, "precision: fp32", parallel}));
    return run.sent_bytes.empty() ? 0.0 : static_cast<double>(run.sent_bytes[2]);
  };
  const double full = bytes_of("compression: none"), half = bytes_of("compression: fp16");
  if (world.rank() != 0) return true;
  std::printf("bytes sent in a step: %.0f, at half width %.0f\n", full, half);
  return full > 0 && half < 0.6 * full && half > 0.4 * full;
}

bool trains_as_threads_do(Communicator& world) {
  const Placement placement = world.placement();
  const bool even = world.size() == placement.num_nodes * placement.max_local_size;
  bool all_equal = half_width_sends_half(world);
  for (const Case& test : kCases) {
    if (!even && std::string(test.parallel).starts_with("sync_every")) continue;
    for (const int seed : {1, 2}) {
      testing::DelayedCommunicator late(world, static_cast<unsigned>(seed));
      all_equal = trains_as_threads_do(late, test, placement.max_local_size, seed) && all_equal;
    }
  }
  return all_equal;
}

}  // namespace trireme::test
