// SPDX-License-Identifier: Apache-2.0
#include "parallel/power_sgd.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <limits>

#include "comm/threads.hpp"

namespace trireme {
namespace {

// One 20 x 30 matrix, a vector, and another matrix, each rank's gradients set by hand.
struct Gradients {
  explicit Gradients(Communicator& c, std::int64_t rank) : sharding(c, Sharding::Over::kNode) {
    std::vector<NamedTensor> named;
    std::vector<PlanParameter> plan;
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{20, 30}, {17}, {9, 4, 5}}) {
      const at::Tensor p = torch::zeros(shape).set_requires_grad(true);
      named.push_back({std::string("p") + char('0' + named.size()), p});
      plan.push_back({.name = named.back().name, .numel = p.numel()});
    }
    flat = std::make_unique<FlatParameters>(
        named, make_bucket_plan(plan, {.bucket_bytes = 2500}, sharding.num_shards()), c);
    reduction = std::make_unique<PowerSgd>(*flat, sharding, PowerSgd::Options{.rank = rank});
  }

  // Parameter i's gradient over all ranks: the sum that each node is given.
  std::vector<at::Tensor> reduce(const std::vector<at::Tensor>& own, std::int64_t step) {
    flat->begin_step();
    reduction->begin_step(step);
    for (std::size_t i = 0; i < own.size(); ++i)
      flat->parameters()[i].tensor.mutable_grad().copy_(own[i]);
    for (std::size_t b = 0; b < flat->plan().buckets.size(); ++b) reduction->post(b);
    reduction->finish_step();
    for (std::size_t b = 0; b < flat->plan().buckets.size(); ++b) {
      sharding.gather(span_of(flat->gradients(b)), flat->plan().buckets[b].shard_offsets).wait();
    }
    std::vector<at::Tensor> sums;
    for (const NamedTensor& p : flat->parameters()) sums.push_back(p.tensor.grad().clone());
    return sums;
  }

  Sharding sharding;
  std::unique_ptr<FlatParameters> flat;
  std::unique_ptr<PowerSgd> reduction;
};

at::Tensor numbers(at::IntArrayRef shape, std::int64_t seed) {
  const std::int64_t n = c10::multiply_integers(shape);
  return torch::sin(torch::arange(n, torch::kFloat) * (0.37F + 0.11F * float(seed)) + float(seed))
      .view(shape);
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

const ThreadsOptions kNodesOfTwo{.ranks_per_node = 2};

TEST(PowerSgd, IsExactWhereTheSumHasLowRank) {
  for (const int ranks : {3, 4, 5}) {  // parts begin inside rows
    run_as_threads(
        ranks,
        [&](Communicator& c) {
          Gradients gradients(c, 2);
          const auto of = [&](int rank) -> std::vector<at::Tensor> {
            return {torch::outer(numbers({20}, 1), numbers({30}, 2)) * (rank + 1) +
                        torch::outer(numbers({20}, 3), numbers({30}, 4)),
                    numbers({17}, rank),
                    torch::outer(numbers({9}, 5), numbers({20}, 6 + rank % 2)).view({9, 4, 5})};
          };
          for (int step = 0; step < 3; ++step) {
            const auto sums = gradients.reduce(of(c.rank()), step);
            for (std::size_t i = 0; i < sums.size(); ++i) {
              at::Tensor exact = torch::zeros_like(sums[i]);
              for (int rank = 0; rank < ranks; ++rank) exact += of(rank)[i];
              EXPECT_LT(distance(sums[i], exact), 1e-5) << i << " at " << step;
            }
          }
        },
        kNodesOfTwo);
  }
}

TEST(PowerSgd, WhatItMissesComesLater) {
  run_as_threads(
      4,
      [](Communicator& c) {
        Gradients gradients(c, 1);
        std::vector<at::Tensor> own;
        for (const NamedTensor& p : gradients.flat->parameters())
          own.push_back(numbers(p.tensor.sizes(), 10 + c.rank()));
        at::Tensor exact = torch::zeros({20, 30});
        for (int rank = 0; rank < 4; ++rank) exact += numbers({20, 30}, 10 + rank);
        at::Tensor sent = torch::zeros({20, 30});
        double first = 0;
        constexpr int kSteps = 60;
        for (int step = 0; step < kSteps; ++step) {
          const at::Tensor sum = gradients.reduce(own, step)[0];
          if (step == 0) first = distance(sum, exact);
          sent += sum;
        }
        EXPECT_GT(first, 0.5) << "one column cannot hold it";
        EXPECT_LT(distance(sent / kSteps, exact), first / 5) << "on average all of it arrives";
      },
      kNodesOfTwo);
}

// Of rank two, of one node each: the product of the factors' lengths stays in float32's range.
std::vector<at::Tensor> scaled_gradients(const Gradients& gradients, float scale) {
  std::vector<at::Tensor> own;
  for (const NamedTensor& p : gradients.flat->parameters())
    own.push_back(torch::zeros(p.tensor.sizes()));
  own[0] = scale * (torch::outer(numbers({20}, 1), numbers({30}, 2)) +
                    torch::outer(numbers({20}, 3), numbers({30}, 4)));
  return own;
}

TEST(PowerSgd, LosesNoGradientForItsSize) {
  run_as_threads(2,
                 [](Communicator& c) {
                   for (const float scale : {3e19F, 1e-24F}) {
                     Gradients gradients(c, 2);
                     const auto own = scaled_gradients(gradients, scale);
                     for (int step = 0; step < 4; ++step) {
                       const at::Tensor sum = gradients.reduce(own, step)[0].to(at::kDouble);
                       EXPECT_LT(distance(sum, 2 * own[0].to(at::kDouble)), 1e-5)
                           << scale << " at " << step;
                     }
                   }
                 },
                 {.ranks_per_node = 1});
}

TEST(PowerSgd, PassesOnWhatIsNotFinite) {
  run_as_threads(2,
                 [](Communicator& c) {
                   Gradients gradients(c, 2);
                   auto own = scaled_gradients(gradients, 1);
                   gradients.reduce(own, 0);
                   if (c.rank() == 1) own[0][3][5] = std::numeric_limits<float>::infinity();
                   EXPECT_FALSE(gradients.reduce(own, 1)[0].isfinite().all().item<bool>());
                 },
                 {.ranks_per_node = 1});
}

TEST(PowerSgd, AStepWithoutGradientsLeavesItAlive) {
  run_as_threads(2,
                 [](Communicator& c) {
                   Gradients gradients(c, 2);
                   std::vector<at::Tensor> own, none;
                   for (const NamedTensor& p : gradients.flat->parameters()) {
                     none.push_back(torch::zeros(p.tensor.sizes()));
                     own.push_back(none.back().clone());
                   }
                   own[0] = torch::outer(numbers({20}, 1), numbers({30}, 2));
                   for (const at::Tensor& sum : gradients.reduce(none, 0))
                     EXPECT_FALSE(sum.any().item<bool>());
                   EXPECT_LT(distance(gradients.reduce(own, 1)[0], 2 * own[0]), 1e-5);
                 },
                 {.ranks_per_node = 1});
}

}  // namespace
}  // namespace trireme
