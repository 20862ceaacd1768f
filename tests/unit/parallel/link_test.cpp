// SPDX-License-Identifier: Apache-2.0
#include "parallel/link.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "comm/threads.hpp"

namespace trireme {
namespace {

// What a step waits for when backward hides all but the last bucket.
double cost(const Link& link, double total, double bucket) {
  return total / bucket * link.latency_s + bucket * link.seconds_per_byte;
}

TEST(Link, TheBestBucketHasTheLeastCost) {
  constexpr double kTotal = 45e6;
  for (const Link link : {Link{150e-6, 8.5e-9}, Link{150e-6, 85e-9}, Link{20e-6, 0.3e-9}}) {
    const auto best = static_cast<double>(best_bucket_bytes(link, std::size_t(kTotal)));
    for (double bucket = 64 << 10; bucket < 25e6; bucket *= 1.3)
      EXPECT_LE(cost(link, kTotal, best), 1.001 * cost(link, kTotal, bucket)) << bucket;
  }
}

TEST(Link, ABucketIsNeitherTinyNorMoreThanAll) {
  EXPECT_EQ(best_bucket_bytes({1e-7, 1e-6}, 1000), std::size_t{64} << 10);
  EXPECT_EQ(best_bucket_bytes({1, 1e-12}, 1'000'000), 1'000'000u);
  EXPECT_EQ(best_bucket_bytes({1, 1e-12}, 1'000'000'000), 25'000'000u);
}

TEST(Link, IsTheSameOnAllRanks) {
  run_as_threads(4,
                 [](Communicator& communicator) {
                   const Link link = measure_link(communicator);
                   EXPECT_GT(link.latency_s, 0);
                   EXPECT_GT(link.seconds_per_byte, 0);
                   const std::vector<std::string> texts = communicator.exchange(to_text(link));
                   for (const std::string& text : texts) EXPECT_EQ(text, texts.front());
                 },
                 {.ranks_per_node = 2});
}

}  // namespace
}  // namespace trireme
