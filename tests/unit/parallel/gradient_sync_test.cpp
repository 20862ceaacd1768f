// SPDX-License-Identifier: Apache-2.0
#include "parallel/gradient_sync.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <mutex>

#include "comm/threads.hpp"
#include "parallel/buffer_average.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

constexpr std::int64_t kNumel = 5 * kShardBlock;  // each of four ranks has some

// Three layers, each in a bucket of its own; the loss is sum over layers of <w, x>,
// so the gradient is x.
struct Layers {
  explicit Layers(Communicator& communicator, Sharding::Over over = Sharding::Over::kNode)
      : sharding(communicator, over) {
    std::vector<NamedTensor> named;
    std::vector<PlanParameter> plan;
    for (int i = 0; i < 3; ++i) {
      weights.push_back(
          torch::full({kNumel}, i + 1.0, torch::dtype(torch::kDouble).requires_grad(true)));
      named.push_back({"layer" + std::to_string(i), weights.back()});
      plan.push_back({.name = named.back().name, .numel = kNumel, .dtype = DType::kF64});
    }
    flat = std::make_unique<FlatParameters>(
        named,
        make_bucket_plan(plan, {.bucket_bytes = 1, .edge_bucket_bytes = 1}, sharding.num_shards()),
        communicator);
    reduction = make_reduction({}, *flat, sharding);
    sync = std::make_unique<GradientSync>(*flat, *reduction);
  }

  at::Tensor loss(double x, const std::vector<int>& used = {0, 1, 2}) const {
    at::Tensor sum = torch::zeros({}, torch::kDouble);
    for (const int i : used) sum = sum + (weights[static_cast<std::size_t>(i)] * x).sum();
    return sum;
  }

  // This rank's part of the gradient of layer i, which is bucket 2 - i.
  at::Tensor part(int i) const {
    const auto bucket = static_cast<std::size_t>(2 - i);
    const Part part = sharding.part(flat->plan().buckets[bucket].shard_offsets);
    return flat->gradients(bucket).slice(0, static_cast<std::int64_t>(part.begin),
                                         static_cast<std::int64_t>(part.end));
  }

  Sharding sharding;
  std::vector<at::Tensor> weights;
  std::unique_ptr<FlatParameters> flat;
  std::unique_ptr<GradientReduction> reduction;
  std::unique_ptr<GradientSync> sync;
};

bool all_are(const at::Tensor& tensor, double value) { return tensor.eq(value).all().item<bool>(); }

TEST(FlatParameters, KeepValuesAndMemoryFormat) {
  run_as_threads(1, [](Communicator& c) {
    const at::Tensor w = torch::randn({4, 3, 2, 2})
                             .contiguous(at::MemoryFormat::ChannelsLast)
                             .set_requires_grad(true);
    const at::Tensor before = w.detach().clone();
    FlatParameters flat(
        {{"w", w}}, make_bucket_plan(std::vector<PlanParameter>{{.name = "w", .numel = 48}}, {}, 1),
        c);
    EXPECT_TRUE(w.is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_TRUE(w.equal(before));
    flat.values(0).fill_(2);
    EXPECT_TRUE(all_are(w.detach(), 2)) << "the parameter is a view of its bucket";
    (w * w).sum().backward();
    EXPECT_TRUE(all_are(flat.gradients(0), 4)) << "the gradient is, too";
  });
}

void check_sums(int ranks, int ranks_per_node, Sharding::Over over) {
  run_as_threads(ranks,
                 [&](Communicator& c) {
                   Layers layers(c, over);
                   for (int step = 0; step < 3; ++step) {
                     layers.sync->begin_step(step);
                     layers.sync->expect_last_backward();
                     layers.loss(c.rank() + 1 + step).backward();
                     layers.sync->finish_step();
                     const double sum = ranks * (ranks + 1) / 2.0 + ranks * step;
                     for (int i = 0; i < 3; ++i)
                       EXPECT_TRUE(all_are(layers.part(i), sum))
                           << "layer " << i << " step " << step;
                   }
                 },
                 {.ranks_per_node = ranks_per_node});
}

TEST(GradientSync, SumsOverRanksInEachPart) {
  for (const int ranks : {1, 2, 3, 4}) check_sums(ranks, 0, Sharding::Over::kNode);
  for (const auto over : {Sharding::Over::kNode, Sharding::Over::kWorld}) {
    check_sums(4, 2, over);
    check_sums(5, 3, over);
  }
}

TEST(GradientSync, AccumulatesMicroBatchesAndReducesOnce) {
  run_as_threads(2, [](Communicator& c) {
    Layers layers(c);
    for (int step = 0; step < 2; ++step) {
      layers.sync->begin_step(step);
      for (int micro = 0; micro < 3; ++micro) {
        if (micro == 2) layers.sync->expect_last_backward();
        layers.loss(1).backward();
        if (micro < 2) {
          for (std::size_t b = 0; b < 3; ++b)
            EXPECT_TRUE(all_are(layers.flat->gradients(b), micro + 1)) << "nothing was reduced yet";
        }
      }
      layers.sync->finish_step();
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(all_are(layers.part(i), 6));
    }
  });
}

TEST(GradientSync, PostsBucketsDuringBackwardFromTheSecondStepOn) {
  run_as_threads(2, [](Communicator& c) {
    Layers layers(c);
    for (int step = 0; step < 2; ++step) {
      layers.sync->begin_step(step);
      layers.sync->expect_last_backward();
      layers.loss(1).backward();
      layers.sync->finish_step();
      for (const BucketTiming& bucket : layers.sync->last_step().buckets) {
        EXPECT_EQ(bucket.posted <= layers.sync->last_step().backward_returned, step > 0);
        EXPECT_EQ(bucket.size_bytes, kNumel * sizeof(double));
      }
    }
  });
}

TEST(GradientSync, TakesRanksThatUseDifferentLayersOrNone) {
  run_as_threads(3, [](Communicator& c) {
    Layers layers(c);
    for (int step = 0; step < 4; ++step) {
      layers.sync->begin_step(step);
      // Rank 0 uses all, rank 1 all but layer 1 in odd steps, rank 2 has no sample in odd steps.
      const bool odd = step % 2 == 1;
      if (c.rank() != 2 || !odd) {
        layers.sync->expect_last_backward();
        layers.loss(1, c.rank() == 1 && odd ? std::vector<int>{0, 2} : std::vector<int>{0, 1, 2})
            .backward();
      }
      layers.sync->finish_step();
      EXPECT_TRUE(all_are(layers.part(0), odd ? 2 : 3));
      EXPECT_TRUE(all_are(layers.part(1), odd ? 1 : 3));
      EXPECT_TRUE(all_are(layers.part(2), odd ? 2 : 3));
    }
  });
}

TEST(GradientSync, TakesALayerThatTheFirstStepDidNotUse) {
  run_as_threads(2, [](Communicator& c) {
    Layers layers(c);
    for (int step = 0; step < 4; ++step) {
      layers.sync->begin_step(step);
      layers.sync->expect_last_backward();
      layers.loss(1, step % 2 == 0 ? std::vector<int>{0, 1} : std::vector<int>{0, 1, 2}).backward();
      layers.sync->finish_step();
      EXPECT_TRUE(all_are(layers.part(2), step % 2 == 0 ? 0 : 2));
      EXPECT_TRUE(all_are(layers.part(0), 2));
    }
  });
}

// What a re-entrant checkpoint does: it runs a backward of its own inside backward, so the
// accumulator fires again.
class FiresTwice : public torch::autograd::Function<FiresTwice> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& w) {
    context->save_for_backward({w});
    return w * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::AutoGradMode on(true);
    (context->get_saved_variables()[0] * 3).sum().backward();
    return {gradients[0] * 2};
  }
};

TEST(GradientSync, WaitsForEveryFiringOfAParameter) {
  run_as_threads(2, [](Communicator& c) {
    Layers layers(c);
    for (int step = 0; step < 3; ++step) {
      layers.sync->begin_step(step);
      layers.sync->expect_last_backward();
      (layers.loss(1, {0, 1}) + FiresTwice::apply(layers.weights[2]).sum()).backward();
      layers.sync->finish_step();
      EXPECT_TRUE(all_are(layers.part(2), 2 * (2 + 3))) << "step " << step;
    }
  });
}

TEST(GradientSync, NamesAParameterWhoseGradientComesTooLate) {
  run_as_threads(1, [](Communicator& c) {
    Layers layers(c);
    layers.sync->begin_step(0);
    layers.sync->expect_last_backward();
    layers.loss(1).backward();
    layers.sync->finish_step();
    layers.sync->begin_step(1);
    layers.sync->expect_last_backward();
    layers.loss(1).backward();
    try {
      layers.loss(1, {1}).backward();
      FAIL() << "a gradient after its reduction was accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("layer1"), std::string::npos) << error.what();
    }
    layers.sync->finish_step();
  });
}

TEST(BufferAverage, IsTheMeanWeightedBySamples) {
  run_as_threads(3, [](Communicator& c) {
    const at::Tensor mean = torch::full({2, 2}, 1.0);
    const at::Tensor table = torch::full({3}, 0.1F);
    const at::Tensor count = torch::full({1}, c.rank(), torch::kLong);
    BufferAverage average({mean, table, count}, c);
    const double weights[] = {0.5, 0.5, 0};
    average.begin_step();
    mean.fill_(10 * (c.rank() + 1));
    average.start(weights[c.rank()]);
    EXPECT_TRUE(all_are(mean, 10 * (c.rank() + 1))) << "backward may still read it";
    average.finish_step();
    EXPECT_TRUE(all_are(mean, 15));
    EXPECT_TRUE(all_are(table, 0.1F)) << "a buffer that does not change keeps its bits";
    EXPECT_TRUE(all_are(count, c.rank())) << "whole numbers stay";
  });
}

}  // namespace
}  // namespace trireme
