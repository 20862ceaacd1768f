// SPDX-License-Identifier: Apache-2.0
#include "data/sampler.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "support.hpp"

namespace trireme {
namespace {

using Ids = std::vector<std::int64_t>;

// The rows of one global batch, put together from all ranks.
Ids global_batch(SamplerOptions options, std::int64_t step) {
  Ids rows;
  for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
    for (const Ids& batch : Sampler(options).micro_batches(step)) {
      rows.insert(rows.end(), batch.begin(), batch.end());
    }
  }
  return rows;
}

Ids epoch(const SamplerOptions& options, std::int64_t number) {
  Ids rows;
  const std::int64_t steps = Sampler(options).steps_per_epoch();
  for (std::int64_t step = number * steps; step < (number + 1) * steps; ++step) {
    const Ids batch = global_batch(options, step);
    rows.insert(rows.end(), batch.begin(), batch.end());
  }
  return rows;
}

Ids sorted(Ids ids) {
  std::ranges::sort(ids);
  return ids;
}

Ids range(std::int64_t n) {
  Ids ids(static_cast<std::size_t>(n));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

TEST(Sampler, GivesEachSampleOnceAnEpochInTheSameOrderForAnyWorldSize) {
  for (const std::int64_t samples : {1, 2, 6, 7, 29, 64}) {
    for (const std::int64_t batch : {1, 4, 7, 100}) {
      const SamplerOptions alone{.num_samples = samples, .global_batch = batch, .seed = 5};
      const Ids expected = epoch(alone, 1);
      EXPECT_EQ(sorted(expected), range(samples));
      for (int world = 2; world <= 7; ++world) {
        SamplerOptions options = alone;
        options.world_size = world;
        options.micro_batch = 2;
        EXPECT_EQ(epoch(options, 1), expected) << samples << ' ' << batch << ' ' << world;
      }
    }
  }
}

// Micro-batch m of all ranks, one rank's rows after the other's.
TEST(Sampler, JointMicroBatchesOfAllRanksAreThoseOfOneRank) {
  for (const std::int64_t micro : {0, 1, 2, 5}) {
    for (int world = 1; world <= 5; ++world) {
      SamplerOptions alone{
          .num_samples = 29, .global_batch = 13, .micro_batch = micro * world, .seed = 5};
      SamplerOptions ranks = alone;
      ranks.micro_batch = micro;
      ranks.joint_micro_batches = true;
      ranks.world_size = world;
      for (std::int64_t step = 0; step < 4; ++step) {  // 13, 13, 3 and the next epoch
        const std::vector<Ids> expected = Sampler(alone).micro_batches(step);
        std::vector<Ids> together(expected.size());
        for (ranks.rank = 0; ranks.rank < world; ++ranks.rank) {
          const std::vector<Ids> own = Sampler(ranks).micro_batches(step);
          ASSERT_EQ(own.size(), expected.size()) << "equally many on every rank";
          for (std::size_t m = 0; m < own.size(); ++m) {
            together[m].insert(together[m].end(), own[m].begin(), own[m].end());
            EXPECT_LE(own[m].size(), expected[m].size() / static_cast<std::size_t>(world) + 1);
          }
        }
        EXPECT_EQ(together, expected) << micro << ' ' << world << ' ' << step;
      }
    }
  }
}

TEST(Sampler, SharesOutAGlobalBatchAsEvenlyAsItGoes) {
  for (int world = 1; world <= 7; ++world) {
    for (int rank = 0; rank < world; ++rank) {
      const Sampler sampler(
          {.num_samples = 10, .global_batch = 10, .rank = rank, .world_size = world});
      const std::size_t share = sampler.micro_batches(0).at(0).size();
      EXPECT_GE(share, static_cast<std::size_t>(10 / world));
      EXPECT_LE(share, static_cast<std::size_t>((10 + world - 1) / world));
    }
  }
}

TEST(Sampler, OrderChangesWithEpochAndSeedAndOnlyWithThem) {
  const SamplerOptions options{.num_samples = 50, .global_batch = 8, .seed = 1};
  SamplerOptions other_seed = options;
  other_seed.seed = 2;
  EXPECT_NE(epoch(options, 0), epoch(options, 1));
  EXPECT_NE(epoch(options, 0), epoch(other_seed, 0));
  EXPECT_NE(epoch(options, 0), range(50));
  const Sampler sampler(options);
  const auto first = sampler.micro_batches(3);
  EXPECT_NE(sampler.micro_batches(3 + sampler.steps_per_epoch()), first);
  EXPECT_EQ(sampler.micro_batches(3), first);  // asked again, after another epoch
}

TEST(Sampler, EveryPlaceOfThePermutationIsReachedFromEveryOther) {
  std::vector<std::set<std::int64_t>> seen(5);  // [place]
  for (std::int64_t number = 0; number < 200; ++number) {
    const Ids order = permutation(5, 3, Stream::kOrder, number);
    for (std::size_t place = 0; place < 5; ++place) {
      seen[place].insert(order[place]);
    }
  }
  for (const auto& values : seen) {
    EXPECT_EQ(values.size(), 5U);
  }
}

TEST(Sampler, WithoutShuffleKeepsTheOrderOfTheDataSet) {
  const SamplerOptions options{
      .num_samples = 11, .global_batch = 4, .shuffle = false, .world_size = 3};
  EXPECT_EQ(epoch(options, 0), range(11));
  EXPECT_EQ(epoch(options, 4), range(11));
}

TEST(Sampler, DropLastLeavesOutTheIncompleteGlobalBatch) {
  SamplerOptions options{.num_samples = 10, .global_batch = 4};
  EXPECT_EQ(Sampler(options).steps_per_epoch(), 3);
  EXPECT_EQ(Sampler(options).global_samples(2), 2);
  EXPECT_EQ(Sampler(options).global_samples(3), 4);  // the next epoch's first
  options.drop_last = true;
  EXPECT_EQ(Sampler(options).steps_per_epoch(), 2);
  EXPECT_EQ(epoch(options, 0).size(), 8U);
}

TEST(Sampler, DropLastThatLeavesNothingIsAnError) {
  const std::string message = test::message_of<DataError>(
      [] { Sampler({.num_samples = 3, .global_batch = 4, .drop_last = true}); });
  EXPECT_THAT(message, testing::HasSubstr("3 samples"));
  EXPECT_THAT(message, testing::HasSubstr("global batch of 4"));
  EXPECT_THAT(message, testing::HasSubstr("data.drop_last"));
}

TEST(Sampler, CutsTheShareOfARankIntoMicroBatches) {
  const Sampler sampler({.num_samples = 20,
                         .global_batch = 20,
                         .micro_batch = 4,
                         .shuffle = false,
                         .rank = 1,
                         .world_size = 2});
  EXPECT_EQ(sampler.micro_batches(0),
            (std::vector<Ids>{{10, 11, 12, 13}, {14, 15, 16, 17}, {18, 19}}));
}

TEST(Sampler, MoreRanksThanSamplesLeavesSomeWithNone) {
  std::vector<std::size_t> micro_batches;  // [rank]
  for (int rank = 0; rank < 5; ++rank) {
    const Sampler sampler({.num_samples = 2, .global_batch = 8, .rank = rank, .world_size = 5});
    micro_batches.push_back(sampler.micro_batches(0).size());
  }
  EXPECT_EQ(std::ranges::count(micro_batches, 1), 2);
  EXPECT_EQ(std::ranges::count(micro_batches, 0), 3);
}

TEST(Sampler, MoreSamplesThanItCanShuffleAreAnErrorOfTheData) {
  try {
    const Sampler sampler({.num_samples = (std::int64_t{1} << 32) + 1, .global_batch = 8});
    FAIL() << "accepted";
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("4294967297 samples"), std::string::npos);
  }
}

TEST(Sampler, WithoutShufflingItKeepsNoOrderInMemory) {
  const std::int64_t most = std::int64_t{1} << 32;  // as a list it would take 34 GB
  const Sampler sampler(
      {.num_samples = most, .global_batch = 8, .micro_batch = 5, .shuffle = false});
  const std::vector<Ids> last{{most - 8, most - 7, most - 6, most - 5, most - 4},
                              {most - 3, most - 2, most - 1}};
  EXPECT_EQ(sampler.micro_batches(sampler.steps_per_epoch() - 1), last);
}

}  // namespace
}  // namespace trireme
