// SPDX-License-Identifier: Apache-2.0
// Which gradients travel together, and how they are cut into shards: a pure function of sizes, so
// that all ranks and a resumed run make the same plan. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trireme/communicator.hpp"

namespace trireme {

struct PlanParameter {
  std::string name;
  std::int64_t numel = 0;
  DType dtype = DType::kF32;
  int group = 0;       // parameter group: one rule and one rate
  bool whole = false;  // updated by one rank as a whole (matrix rules)
  double cost = 0;     // of its update, in any unit; whole parameters are dealt to shards by it
};

struct PlanLimits {
  std::size_t bucket_bytes = 25'000'000;
  std::size_t edge_bucket_bytes = 1'000'000;  // of the first and the last bucket that are reduced
};

// Offsets and lengths are in elements. Items start at multiples of 64 bytes; the gaps stay zero. A
// shard begins at an item or a multiple of kShardBlock elements after one.
constexpr std::int64_t kShardBlock = 256;

struct PlanItem {
  int parameter = 0;  // index into the parameters
  std::int64_t offset = 0;
};

struct PlanBucket {
  DType dtype = DType::kF32;
  bool whole = false;           // every item lies in one shard
  std::vector<PlanItem> items;  // parameters of one group are neighbours
  std::int64_t numel = 0;
  std::vector<std::size_t> shard_offsets;  // [num_shards + 1], ascending from 0 to numel
};

struct BucketPlan {
  std::vector<PlanBucket>
      buckets;  // in the order of reduction: last parameters first, as backward delivers them
};

// A parameter larger than a limit gets a bucket of its own.
BucketPlan make_bucket_plan(std::span<const PlanParameter> parameters, const PlanLimits& limits,
                            int num_shards);

// One line a bucket, with all that the plan fixes: equal texts mean equal plans.
std::vector<std::string> describe(const BucketPlan& plan,
                                  std::span<const PlanParameter> parameters);

}  // namespace trireme
