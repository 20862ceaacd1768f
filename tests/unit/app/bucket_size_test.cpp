// SPDX-License-Identifier: Apache-2.0
#include "app/bucket_size.hpp"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/local.hpp"
#include "comm/threads.hpp"

namespace trireme::test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr std::size_t kTotalBytes = 40'000'000;
// Parameters of which none is larger than a bucket can be chosen to be.
const std::vector<std::size_t> kSmall(1000, kTotalBytes / 1000);

// What 4 ranks choose; they must all choose the same.
BucketSize chosen(const ParallelConfig& parallel, int ranks_per_node,
                  const std::vector<std::size_t>& parameter_bytes = kSmall) {
  BucketSize found;
  run_as_threads(4,
                 [&](Communicator& gradients) {
                   const auto control = gradients.split(0, gradients.rank());
                   const BucketSize size =
                       choose_bucket_size(parallel, gradients, *control, parameter_bytes);
                   for (const std::string& text : control->exchange(size.text))
                     EXPECT_EQ(text, size.text);
                   if (gradients.rank() == 0) found = size;
                 },
                 {.ranks_per_node = ranks_per_node});
  return found;
}

TEST(BucketSize, SuitsTheLinkOverWhichAllRanksSum) {
  const BucketSize size = chosen({}, 2);
  ASSERT_TRUE(size.link);
  EXPECT_NEAR(size.megabytes, static_cast<double>(best_bucket_bytes(*size.link, kTotalBytes)) / 1e6,
              0.00501);
  EXPECT_THAT(size.text, StartsWith("gradients travel in buckets of "));
  EXPECT_THAT(size.text, HasSubstr("a sum over 4 ranks on 2 nodes was measured to take " +
                                   to_text(*size.link)));
  EXPECT_THAT(size.text, Not(HasSubstr("whole")));
}

// At most 25 MB are chosen.
TEST(BucketSize, NamesParametersThatTravelWhole) {
  EXPECT_THAT(chosen({}, 2, {100, 30'000'000, 200, 41'500'000}).text,
              EndsWith("; 2 larger parameters travel whole, up to 41.50 MB"));
  EXPECT_THAT(chosen({}, 2, {100, 30'000'000}).text,
              EndsWith("; 1 larger parameter travels whole, of 30.00 MB"));
  ParallelConfig parallel;
  parallel.compression = "powersgd";
  EXPECT_THAT(chosen(parallel, 2, {25'000'000, 25'000'001}).text,
              EndsWith("has this size; 1 larger parameter travels whole, of 25.00 MB"));
}

TEST(BucketSize, OfLocalSgdSuitsTheLinkInsideANode) {
  ParallelConfig parallel;
  parallel.sync_every = 8;
  EXPECT_THAT(chosen(parallel, 2).text, HasSubstr("a sum over the ranks of a node was measured"));
  EXPECT_THAT(chosen(parallel, 0).text, HasSubstr("a sum over 4 ranks on 1 node was measured"));
  const BucketSize alone = chosen(parallel, 1);
  EXPECT_FALSE(alone.link);
  EXPECT_EQ(alone.megabytes, 25);
  EXPECT_EQ(alone.text, "");  // no gradients are summed
}

TEST(BucketSize, AGivenOneIsSaidToBeGiven) {
  EXPECT_EQ(
      given_bucket_size(0.1).text,
      "gradients travel in buckets of 100 kB (parallel.bucket_mb), as the configuration has it");
}

TEST(BetweenNodes, WhatActsThereIsSaid) {
  ParallelConfig parallel;
  EXPECT_EQ(between_nodes_text(parallel, 2), "");
  parallel.sync_every = 8;
  EXPECT_EQ(between_nodes_text(parallel, 2),
            "each of 2 nodes trains for itself; every 8 steps they are averaged "
            "(parallel.sync_every)\n");
  EXPECT_EQ(between_nodes_text(parallel, 1), "");
  parallel.sync_every = 1;
  parallel.compression = "bf16";
  EXPECT_EQ(between_nodes_text(parallel, 3),
            "between 3 nodes gradients travel as bf16 (parallel.compression: bf16)\n");
  parallel.compression = "powersgd";
  parallel.powersgd_rank = 2;
  parallel.powersgd_start = 10;
  EXPECT_EQ(between_nodes_text(parallel, 3),
            "between 3 nodes gradients travel as products of rank 2 from step 11 on "
            "(parallel.compression: powersgd)\n");
}

TEST(BucketSize, OfPowerSgdIsNotMeasured) {
  ParallelConfig parallel;
  parallel.compression = "powersgd";
  const BucketSize size = chosen(parallel, 2);
  EXPECT_FALSE(size.link);
  EXPECT_EQ(size.megabytes, 25);
  EXPECT_EQ(size.text,
            "gradients travel in buckets of 25.00 MB (parallel.bucket_mb); not measured: "
            "parallel.compression: powersgd has this size");
}

TEST(BucketSize, OfOneRankIsNotWorthAWord) {
  const auto alone = make_local_communicator();
  const BucketSize size = choose_bucket_size({}, *alone, *alone, kSmall);
  EXPECT_FALSE(size.link);
  EXPECT_EQ(size.megabytes, 25);
  EXPECT_EQ(size.text, "");
}

}  // namespace
}  // namespace trireme::test
