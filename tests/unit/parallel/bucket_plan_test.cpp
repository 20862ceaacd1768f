// SPDX-License-Identifier: Apache-2.0
#include "parallel/bucket_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace trireme {
namespace {

std::vector<PlanParameter> network() {
  std::vector<PlanParameter> parameters;
  for (int i = 0; i < 20; ++i) {
    parameters.push_back({.name = std::string("w") + std::to_string(i),
                          .numel = 1000 + 7 * i,
                          .dtype = DType::kF32,
                          .group = i % 3});
  }
  return parameters;
}

TEST(BucketPlan, HoldsEveryParameterOnceWithoutOverlap) {
  const auto parameters = network();
  const BucketPlan plan =
      make_bucket_plan(parameters, {.bucket_bytes = 16000, .edge_bucket_bytes = 5000}, 3);
  std::multiset<int> seen;
  for (const PlanBucket& bucket : plan.buckets) {
    std::int64_t end = 0;
    for (const PlanItem& item : bucket.items) {
      seen.insert(item.parameter);
      EXPECT_GE(item.offset, end);
      EXPECT_EQ(item.offset * 4 % 64, 0);
      end = item.offset + parameters[static_cast<std::size_t>(item.parameter)].numel;
    }
    EXPECT_LE(end, bucket.numel);
  }
  EXPECT_EQ(seen.size(), parameters.size());
  EXPECT_EQ(std::set<int>(seen.begin(), seen.end()).size(), parameters.size());
}

TEST(BucketPlan, KeepsLimitsAndSmallEdgesAndReverseOrder) {
  const auto parameters = network();
  const BucketPlan plan =
      make_bucket_plan(parameters, {.bucket_bytes = 16000, .edge_bucket_bytes = 5000}, 2);
  ASSERT_GE(plan.buckets.size(), 4u);
  const auto bytes = [&](const PlanBucket& bucket) {
    std::int64_t sum = 0;
    for (const PlanItem& item : bucket.items)
      sum += 4 * parameters[static_cast<std::size_t>(item.parameter)].numel;
    return sum;
  };
  EXPECT_LE(bytes(plan.buckets.front()), 5000);
  EXPECT_LE(bytes(plan.buckets.back()), 5000);
  int previous = 20;
  for (const PlanBucket& bucket : plan.buckets) {
    EXPECT_LE(bytes(bucket), 16000);
    int highest = -1, lowest = 20;
    for (const PlanItem& item : bucket.items) {
      highest = std::max(highest, item.parameter);
      lowest = std::min(lowest, item.parameter);
    }
    EXPECT_LT(highest, previous) << "buckets follow backward: last parameters first";
    previous = lowest;
  }
}

TEST(BucketPlan, PutsParametersOfOneGroupNextToEachOther) {
  const auto parameters = network();
  for (const PlanBucket& bucket : make_bucket_plan(parameters, {}, 2).buckets) {
    std::set<int> closed;
    int current = -1;
    for (const PlanItem& item : bucket.items) {
      const int group = parameters[static_cast<std::size_t>(item.parameter)].group;
      if (group != current) {
        EXPECT_TRUE(closed.insert(group).second) << "group " << group << " comes twice";
      }
      current = group;
    }
  }
}

TEST(BucketPlan, ShardsCoverEachBucketInOrder) {
  for (const int world : {1, 2, 3, 7, 64}) {
    for (const PlanBucket& bucket : make_bucket_plan(network(), {}, world).buckets) {
      ASSERT_EQ(bucket.shard_offsets.size(), static_cast<std::size_t>(world) + 1);
      EXPECT_EQ(bucket.shard_offsets.front(), 0u);
      EXPECT_EQ(bucket.shard_offsets.back(), static_cast<std::size_t>(bucket.numel));
      for (int r = 0; r < world; ++r) {
        const auto i = static_cast<std::size_t>(r);
        EXPECT_LE(bucket.shard_offsets[i], bucket.shard_offsets[i + 1]);
        const auto at = static_cast<std::int64_t>(bucket.shard_offsets[i]);
        EXPECT_TRUE(std::any_of(bucket.items.begin(), bucket.items.end(),
                                [&](const PlanItem& item) {
                                  return at >= item.offset && (at - item.offset) % kShardBlock == 0;
                                }))
            << at;
      }
    }
  }
}

TEST(BucketPlan, GivesWholeParametersToOneRankAndBalancesTheirCost) {
  std::vector<PlanParameter> parameters;
  for (int i = 0; i < 6; ++i) {
    parameters.push_back({.name = std::string("m") + std::to_string(i),
                          .numel = 5000,
                          .dtype = DType::kF32,
                          .group = 0,
                          .whole = true,
                          .cost = 1.0 + i});
  }
  const BucketPlan plan = make_bucket_plan(parameters, {}, 2);
  std::vector<double> load(2, 0);
  for (const PlanBucket& bucket : plan.buckets) {
    EXPECT_TRUE(bucket.whole);
    for (const PlanItem& item : bucket.items) {
      const auto begin = static_cast<std::size_t>(item.offset), end = begin + 5000;
      const std::size_t rank = end <= bucket.shard_offsets[1] ? 0 : 1;
      EXPECT_GE(begin, bucket.shard_offsets[rank]);
      EXPECT_LE(end, bucket.shard_offsets[rank + 1]);
      load[rank] += parameters[static_cast<std::size_t>(item.parameter)].cost;
    }
  }
  EXPECT_EQ(load[0] + load[1], 21);
  EXPECT_LE(std::abs(load[0] - load[1]), 1);
}

TEST(BucketPlan, NeverMixesTypesOrWholeAndElementwise) {
  std::vector<PlanParameter> parameters = network();
  parameters[3].dtype = DType::kF64;
  parameters[7].whole = true;
  for (const PlanBucket& bucket : make_bucket_plan(parameters, {}, 2).buckets) {
    for (const PlanItem& item : bucket.items) {
      EXPECT_EQ(parameters[static_cast<std::size_t>(item.parameter)].dtype, bucket.dtype);
      EXPECT_EQ(parameters[static_cast<std::size_t>(item.parameter)].whole, bucket.whole);
    }
  }
}

TEST(BucketPlan, IsTheSameEachTimeAndTellsWhatDiffers) {
  auto parameters = network();
  const auto text = describe(make_bucket_plan(parameters, {}, 4), parameters);
  EXPECT_EQ(text, describe(make_bucket_plan(parameters, {}, 4), parameters));
  std::swap(parameters[2].name, parameters[3].name);
  EXPECT_NE(text, describe(make_bucket_plan(parameters, {}, 4), parameters));
}

TEST(BucketPlan, LeavesOutEmptyParametersAndTakesNone) {
  std::vector<PlanParameter> parameters = {{.name = "empty", .numel = 0}};
  EXPECT_TRUE(make_bucket_plan(parameters, {}, 2).buckets.empty());
  EXPECT_TRUE(make_bucket_plan({}, {}, 2).buckets.empty());
}

}  // namespace
}  // namespace trireme
