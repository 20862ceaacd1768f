// SPDX-License-Identifier: Apache-2.0
#include "parallel/link.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <memory>

#include "comm/local.hpp"
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

// One rank whose sums take, by their own word, what those of some link do: small ones move at
// another rate than the bulk.
class TwoRates : public Communicator {
 public:
  static double seconds(std::size_t size_bytes) {
    const auto bytes = static_cast<double>(size_bytes);
    return size_bytes <= 64 << 10 ? 1e-3 + bytes * 100e-9 : bytes * 40e-9;
  }
  Request node_reduce_scatter(Span data, std::span<const std::size_t>, const Wire&) override {
    const std::chrono::duration<double> passed(seconds(data.size_bytes()));
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::duration_cast<std::chrono::steady_clock::duration>(passed);
    return Request(std::make_shared<Ended>(end));
  }
  Buffer allocate(std::size_t size_bytes) override { return local_->allocate(size_bytes); }
  std::vector<std::string> exchange(std::string_view bytes) override {
    return local_->exchange(bytes);
  }
  void barrier() override {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string_view kind() const override { return "two rates"; }
  Placement placement() const override { return {}; }
  // Nobody asks for these.
  Request all_reduce(Span) override { return {}; }
  Request reduce_scatter(Span, std::span<const std::size_t>) override { return {}; }
  Request all_gather(Span, std::span<const std::size_t>) override { return {}; }
  Request broadcast(Span, int) override { return {}; }
  std::unique_ptr<Communicator> split(int, int) override { return nullptr; }
  std::unique_ptr<Communicator> split_by_node() override { return nullptr; }
  Buffer allocate_shared(std::size_t) override { return {}; }
  void set_timeout(std::chrono::milliseconds) override {}

 private:
  class Ended : public Operation {
   public:
    explicit Ended(std::chrono::steady_clock::time_point end) : end_(end) {}
    bool test() override { return true; }
    void wait() override {}
    void abandon() noexcept override {}
    std::chrono::steady_clock::time_point completed_at() const override { return end_; }

   private:
    std::chrono::steady_clock::time_point end_;
  };

  std::unique_ptr<Communicator> local_ = make_local_communicator();
};

TEST(Link, LatencyIsThatOfATinySumThoughSmallOnesHaveAnotherRate) {
  TwoRates sums;
  const Link link = measure_link(sums, sums, 64 << 20);
  EXPECT_NEAR(link.latency_s, 1e-3, 0.5e-3);
  EXPECT_NEAR(link.seconds_per_byte, 40e-9, 4e-9);
  EXPECT_EQ(to_text({1.5e-4, 8e-9}), "0.15 ms and 8 ms more a MB (0.125 GB/s)");
}

TEST(Link, IsTheSameOnAllRanks) {
  run_as_threads(4,
                 [](Communicator& communicator) {
                   const auto node = communicator.split_by_node();
                   for (Communicator* sums : {&communicator, node.get()}) {
                     const Link link = measure_link(*sums, communicator, 64 << 20);
                     EXPECT_GT(link.latency_s, 0);
                     EXPECT_GT(link.seconds_per_byte, 0);
                     const std::string text = to_text(link);
                     for (const std::string& other : communicator.exchange(text))
                       EXPECT_EQ(text, other);
                   }
                 },
                 {.ranks_per_node = 2});
}

}  // namespace
}  // namespace trireme
