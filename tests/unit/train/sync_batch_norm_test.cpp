// SPDX-License-Identifier: Apache-2.0
// Trainings of networks with BatchNorm over ranks, and what BatchNorm's buffers are on all ranks.
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <map>
#include <mutex>
#include <stdexcept>

#include "checkpoint/archive.hpp"
#include "comm/shared_error.hpp"
#include "support/temporary_directory.hpp"
#include "support/training.hpp"
#include "trireme/error.hpp"
#include "trireme/model.hpp"

namespace trireme::test {
namespace {

constexpr double kTolerance = 1e-10;

struct Setting {
  std::string model;
  int size = 8;  // of the images
  std::int64_t steps = 20;
  bool sync = true;
};

// 101 samples in global batches of 26, the last one of an epoch 23; micro-batches of 12 over all
// ranks: 12, 12 and 2, so that with three or four ranks some have no sample in the last one.
Config config_for(const Setting& setting, int ranks, const Registry& registry = all_parts()) {
  const std::string size = std::to_string(setting.size);
  Config config = config_of("model: {" + setting.model + R"(}
data: {name: synthetic, samples: 101, classes: 3, shape: [3, )" +
                                size + ", " + size + R"(], flip: random}
optimizer: {name: sgd, lr: 0.02, momentum: 0.9}
train: {max_steps: 1, global_batch: 26, precision: fp64}
parallel: {bucket_mb: 0.01, edge_bucket_mb: 0.002}
)",
                            registry);
  config.train.max_steps = setting.steps;
  config.train.micro_batch = 12 / ranks;
  config.parallel.sync_batch_norm = setting.sync;
  return config;
}

// Ranks that together see, micro-batch by micro-batch, what one rank alone sees.
void expect_what_one_rank_trains(const Setting& setting, const std::vector<int>& all_ranks,
                                 const Registry& registry = all_parts()) {
  const TrainingRun alone = train(config_for(setting, 1, registry), {}, registry);
  ASSERT_EQ(alone.losses.size(), static_cast<std::size_t>(setting.steps));
  EXPECT_LT(alone.losses.back(), alone.losses.front()) << "it learns";
  for (const int ranks : all_ranks) {
    const TrainingRun together =
        train(config_for(setting, ranks, registry), {.ranks = ranks}, registry);
    EXPECT_LE(largest_difference(alone.losses, together.losses), kTolerance) << ranks << " ranks";
    EXPECT_NEAR(alone.evaluations.back().loss, together.evaluations.back().loss, kTolerance);
    ASSERT_FALSE(alone.buffers.empty());
    for (std::size_t i = 0; i < alone.buffers.size(); ++i) {
      EXPECT_TRUE(alone.buffers[i].allclose(together.buffers[i], kTolerance, kTolerance))
          << ranks << " ranks, buffer " << i;
    }
  }
}

TEST(SyncBatchNorm, TrainsAConvolutionalNetworkAsOneRankDoes) {
  expect_what_one_rank_trains({.model = "name: convnet, width: 4, dropout: 0.1"}, {2, 3, 4});
}

TEST(SyncBatchNorm, TrainsANetworkWithFrozenScalesAsOneRankDoes) {
  expect_what_one_rank_trains(
      {.model = "name: cifar_net, width: 4, whiten_samples: 50, channels_last: true", .size = 27},
      {2, 4});
}

TEST(SyncBatchNorm, TrainsWithoutAccumulationAndWithFewerSamplesThanRanks) {
  const Config config = config_of(R"(
model: {name: convnet, width: 4}
data: {name: synthetic, samples: 12, classes: 3, shape: [3, 8, 8]}
optimizer: {name: sgd, lr: 0.05}
train: {max_steps: 20, global_batch: 5, precision: fp64}
parallel: {sync_batch_norm: true}
)");  // batches of 5, 5, 2
  const TrainingRun alone = train(config);
  for (const int ranks : {2, 3, 4}) {
    EXPECT_LE(largest_difference(alone.losses, train(config, {.ranks = ranks}).losses), kTolerance)
        << ranks << " ranks";
  }
}

TEST(SyncBatchNorm, IsOffUnlessAskedFor) {
  Config config = config_for({.model = "name: convnet, width: 4"}, 2);
  const TrainingRun on = train(config, {.ranks = 2});
  config.parallel = {};
  const TrainingRun off = train(config, {.ranks = 2});
  EXPECT_GT(largest_difference(on.losses, off.losses), 1e-3);
}

TEST(SyncBatchNorm, IsBitwiseFromRunToRunAndOverAResume) {
  const TemporaryDirectory directory;
  Config config = config_for({.model = "name: convnet, width: 4"}, 3);
  const TrainingRun whole = train(config, {.ranks = 3});
  config.checkpoint.every_steps = 7;
  config.checkpoint.keep = 3;
  const TrainingRun again = train(config, {.ranks = 3, .checkpoints = directory.path()});
  EXPECT_EQ(whole.losses, again.losses);
  const TrainingRun resumed =
      train(config, {.ranks = 3, .restore = directory.path() / "step-00000007"});
  ASSERT_EQ(resumed.losses.size(), 13u);
  EXPECT_TRUE(std::equal(resumed.losses.begin(), resumed.losses.end(), whole.losses.begin() + 7));
  EXPECT_TRUE(bitwise_equal(whole.parameters, resumed.parameters));
  EXPECT_TRUE(bitwise_equal(whole.buffers, resumed.buffers));
}

// BatchNorm, ReLU and convolution whose forward is repeated in backward, by a backward of its own.
struct Recomputed : torch::nn::Module {
  Recomputed() {
    norm = register_module("norm", std::make_shared<BatchNorm>(4));
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 4, 3)));
  }
  torch::Tensor forward(const torch::Tensor& x) { return conv(norm->forward(x).relu()); }

  std::shared_ptr<BatchNorm> norm;
  torch::nn::Conv2d conv{nullptr};
};

class Checkpoint : public torch::autograd::Function<Checkpoint> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            Recomputed* block) {
    context->save_for_backward({input});
    context->saved_data["block"] = reinterpret_cast<std::int64_t>(block);
    return block->forward(input);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::AutoGradMode on(true);
    auto* block = reinterpret_cast<Recomputed*>(context->saved_data["block"].toInt());
    const at::Tensor input = context->get_saved_variables()[0].detach().requires_grad_();
    block->forward(input).backward(gradients[0]);
    return {input.grad(), {}};
  }
};

struct Checkpointed : Model {
  Checkpointed() {
    stem = register_module("stem", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3)));
    first = register_module("first", std::make_shared<Recomputed>());
    second = register_module("second", std::make_shared<Recomputed>());
    head = register_module("head", torch::nn::Linear(4 * 2 * 2, 3));
  }
  torch::Tensor forward(const torch::Tensor& input) override {
    torch::Tensor x = stem(input);
    for (Recomputed* block : {first.get(), second.get()}) x = Checkpoint::apply(x, block);
    return head(x.flatten(1));
  }
  torch::nn::Conv2d stem{nullptr};
  std::shared_ptr<Recomputed> first, second;
  torch::nn::Linear head{nullptr};
};

template <typename M>
Registry with_model(const std::string& name) {
  Registry registry = all_parts();
  registry.add(ModelEntry{name, "Of a test.", {}, [](const Options&, const DatasetSpec&) {
                            return std::make_shared<M>();
                          }});
  return registry;
}

TEST(SyncBatchNorm, HoldsWhereBackwardRunsALayerAgain) {
  expect_what_one_rank_trains({.model = "name: checkpointed"}, {2, 3},
                              with_model<Checkpointed>("checkpointed"));
}

struct TorchsNorm : Model {
  TorchsNorm() {
    register_module("ours", std::make_shared<BatchNorm>(3));
    register_module("theirs", torch::nn::BatchNorm2d(3));
  }
  torch::Tensor forward(const torch::Tensor& input) override { return input; }
};

void expect_refused(const std::string& model, const Registry& registry, const std::string& words) {
  for (const int ranks : {1, 2}) {
    try {
      train(config_for({.model = model}, ranks, registry), {.ranks = ranks}, registry);
      FAIL() << model << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_NE(std::string(error.what()).find("parallel.sync_batch_norm"), std::string::npos);
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
}

TEST(SyncBatchNorm, IsRefusedWhereItHasNoEffectOrNotOnAllLayers) {
  expect_refused("name: mlp, hidden: [4]", all_parts(), "no trireme::BatchNorm");
  expect_refused("name: torchs", with_model<TorchsNorm>("torchs"), "'theirs'");
}

TEST(SyncBatchNorm, EndsATrainingWithOneValueAChannel) {
  const Config config = config_of(R"(
model: {name: resnet18}
data: {name: synthetic, samples: 5, classes: 3, shape: [3, 8, 8]}
optimizer: {name: sgd, lr: 0.05}
train: {max_steps: 3, global_batch: 4}
parallel: {sync_batch_norm: true}
)");  // the last batch has one sample, whose last maps have one pixel
  for (const int ranks : {1, 2}) {
    try {
      train(config, {.ranks = ranks});
      FAIL() << "one value a channel was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage) << error.what();
      EXPECT_NE(std::string(error.what()).find("fewer than two values"), std::string::npos)
          << error.what();
    }
  }
}

// The weights of the first layer are infinite on one rank: what the others get from it ends them
// all alike.
TEST(SyncBatchNorm, EndsAllRanksTogetherWhereOneRanksStatisticsAreNotFinite) {
  const auto spoil = [](Session& session, Communicator& world) {
    const at::NoGradGuard no_grad;
    if (world.rank() == 1) session.replica().trained.front().tensor.fill_(INFINITY);
  };
  try {
    train(config_for({.model = "name: convnet, width: 4"}, 3), {.ranks = 3, .before_run = spoil});
    FAIL() << "infinite weights went unnoticed";
  } catch (const SharedError& error) {
    EXPECT_EQ(error.code(), ExitCode::kNumerics) << error.what();
    EXPECT_NE(std::string(error.what()).find("rank 2: loss nan"), std::string::npos)
        << error.what();
  }
}

// Notes the buffers that each evaluation sees on each rank.
struct Watched : Model {
  using Seen = std::map<const Watched*, std::vector<at::Tensor>>;  // [evaluation]: running_mean
  explicit Watched(Seen& notes) : seen(notes) {
    norm = register_module("norm", std::make_shared<BatchNorm>(3));
    head = register_module("head", torch::nn::Linear(3 * 4 * 4, 3));
  }
  torch::Tensor forward(const torch::Tensor& input) override {
    static std::mutex mutex;
    if (!is_training()) {
      const std::lock_guard lock(mutex);
      seen[this].push_back(norm->running_mean.clone());
    }
    return head(norm->forward(input).flatten(1));
  }
  Seen& seen;
  std::shared_ptr<BatchNorm> norm;
  torch::nn::Linear head{nullptr};
};

std::vector<double> saved(const CheckpointReader& checkpoint, const std::string& name) {
  const ArrayInfo* info = checkpoint.find(name);
  if (info == nullptr) throw std::logic_error("no " + name);
  std::vector<double> values(info->size_bytes() / sizeof(double));
  checkpoint.read(*info, std::as_writable_bytes(std::span(values)));
  return values;
}

// Reported of PyTorch (issue 13711): ranks evaluated, and rank 0 saved, what rank 0 alone had seen.
TEST(BatchNormBuffers, AreEqualOnAllRanksBeforeEvaluationAndSavingWithAndWithoutSync) {
  for (const bool sync : {false, true}) {
    const TemporaryDirectory directory;
    Watched::Seen seen;
    Registry registry = all_parts();
    registry.add(
        ModelEntry{"watched", "Notes its buffers.", {}, [&](const Options&, const DatasetSpec&) {
                     return std::make_shared<Watched>(seen);
                   }});
    Config config =
        config_for({.model = "name: watched", .size = 4, .steps = 2, .sync = sync}, 3, registry);
    config.train.eval_batch = 101;  // one forward on each rank
    train(config, {.ranks = 3, .checkpoints = directory.path()}, registry);
    const auto file =
        saved(CheckpointReader(directory.path() / "latest"), "buffers/norm.running_mean");
    ASSERT_EQ(seen.size(), 3u);
    for (const auto& [model, means] : seen) {
      const at::Tensor& last = means.back();
      EXPECT_TRUE(last.equal(seen.begin()->second.back())) << "ranks differ, sync " << sync;
      EXPECT_TRUE(last.equal(torch::tensor(file, at::kDouble))) << "not what was evaluated";
      EXPECT_FALSE(last.equal(means.front())) << "it has changed since the start";
    }
  }
}

}  // namespace
}  // namespace trireme::test
