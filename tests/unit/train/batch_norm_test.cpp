// SPDX-License-Identifier: Apache-2.0
// BatchNorm alone against torch's, and over ranks (threads) against torch's on the whole batch.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/utils.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "comm/threads.hpp"
#include "trireme/error.hpp"
#include "trireme/model.hpp"

namespace trireme {
namespace {

constexpr double kTolerance = 1e-12;
constexpr std::int64_t kChannels = 3;
const std::vector<std::vector<std::int64_t>> kShapes = {
    {7, kChannels}, {7, kChannels, 5}, {7, kChannels, 4, 5}, {7, kChannels, 2, 3, 2}};

// Weight and bias that are not 1 and 0.
template <typename Layer>
void fill(Layer& layer, at::ScalarType type) {
  const at::NoGradGuard no_grad;
  layer.to(type);
  layer.weight.copy_(torch::linspace(0.5, 2, kChannels));
  layer.bias.copy_(torch::linspace(-1, 1, kChannels));
}

// What a layer makes of a batch, and of the gradient of its output.
struct Pass {
  at::Tensor output, input_gradient, weight_gradient, bias_gradient, running_mean, running_var;

  std::vector<at::Tensor> all() const {
    return {output, input_gradient, weight_gradient, bias_gradient, running_mean, running_var};
  }
};

template <typename Layer>
Pass run(Layer& layer, const at::Tensor& batch, const at::Tensor& gradient) {
  const at::Tensor input = batch.detach().clone().requires_grad_();
  const at::Tensor output = layer.forward(input);
  output.backward(gradient);
  return {output.detach(),   input.grad(),       layer.weight.grad(),
          layer.bias.grad(), layer.running_mean, layer.running_var};
}

Pass run_torchs(const at::Tensor& batch, const at::Tensor& gradient) {
  const auto on = [&](auto layer) {
    fill(*layer, batch.scalar_type());
    return run(*layer, batch, gradient);
  };
  if (batch.dim() < 4) return on(torch::nn::BatchNorm1d(kChannels));
  if (batch.dim() == 4) return on(torch::nn::BatchNorm2d(kChannels));
  return on(torch::nn::BatchNorm3d(kChannels));
}

TEST(BatchNorm, AloneEqualsTorchsBitForBit) {
  torch::manual_seed(1);
  for (const auto type : {at::kFloat, at::kDouble}) {
    for (const auto& shape : kShapes) {
      const at::Tensor batch = torch::randn(shape, type), gradient = torch::randn(shape, type);
      BatchNorm layer(kChannels);
      fill(layer, type);
      const std::vector<at::Tensor> ours = run(layer, batch, gradient).all();
      const std::vector<at::Tensor> torchs = run_torchs(batch, gradient).all();
      for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(ours[i].equal(torchs[i])) << i;
    }
  }
}

TEST(BatchNorm, HasTorchsNamesOptionsAndRunningStatistics) {
  BatchNorm ours(kChannels, {.eps = 0.5, .momentum = 0.3});
  torch::nn::BatchNorm2d torchs(torch::nn::BatchNorm2dOptions(kChannels).eps(0.5).momentum(0.3));
  EXPECT_EQ(ours.named_parameters().keys(), torchs->named_parameters().keys());
  EXPECT_EQ(ours.named_buffers().keys(), torchs->named_buffers().keys());
  for (int i = 0; i < 3; ++i) {
    const at::Tensor batch = torch::randn({4, kChannels, 2, 2}) + i;
    EXPECT_TRUE(ours.forward(batch).equal(torchs->forward(batch)));
  }
  ours.eval();
  torchs->eval();
  const at::Tensor batch = torch::randn({1, kChannels, 1, 1});
  EXPECT_TRUE(ours.forward(batch).equal(torchs->forward(batch)));
  for (std::size_t i = 0; i < ours.buffers().size(); ++i) {
    EXPECT_TRUE(ours.buffers()[i].equal(torchs->buffers()[i])) << ours.named_buffers().keys()[i];
  }
}

// Rows [begin[r], begin[r + 1]) of the batch are rank r's.
std::vector<Pass> run_over_ranks(const at::Tensor& batch, const at::Tensor& gradient,
                                 const std::vector<std::int64_t>& begin) {
  std::vector<Pass> passes(begin.size() - 1);
  run_as_threads(static_cast<int>(passes.size()), [&](Communicator& world) {
    BatchNorm layer(kChannels);
    fill(layer, batch.scalar_type());
    layer.bind(world, "norm");
    const auto rank = static_cast<std::size_t>(world.rank());
    const auto own = [&](const at::Tensor& all) {
      return all.narrow(0, begin[rank], begin[rank + 1] - begin[rank]);
    };
    passes[rank] = run(layer, own(batch), own(gradient));
    EXPECT_EQ(layer.num_batches_tracked.item<std::int64_t>(), 1);
  });
  return passes;
}

void expect_equal(const std::vector<Pass>& ranks, const Pass& whole, double tolerance) {
  std::vector<at::Tensor> outputs, input_gradients;
  at::Tensor weight_gradient = torch::zeros({kChannels}), bias_gradient = weight_gradient;
  for (const Pass& pass : ranks) {
    outputs.push_back(pass.output);
    input_gradients.push_back(pass.input_gradient);
    weight_gradient = weight_gradient + pass.weight_gradient;
    bias_gradient = bias_gradient + pass.bias_gradient;
    EXPECT_TRUE(pass.running_mean.allclose(whole.running_mean, tolerance, tolerance));
    EXPECT_TRUE(pass.running_var.allclose(whole.running_var, tolerance, tolerance));
    EXPECT_TRUE(pass.running_mean.equal(ranks[0].running_mean)) << "to the bit";
    EXPECT_TRUE(pass.running_var.equal(ranks[0].running_var)) << "to the bit";
  }
  EXPECT_TRUE(torch::cat(outputs).allclose(whole.output, tolerance, tolerance));
  EXPECT_TRUE(torch::cat(input_gradients).allclose(whole.input_gradient, tolerance, tolerance));
  EXPECT_TRUE(weight_gradient.allclose(whole.weight_gradient, tolerance, tolerance));
  EXPECT_TRUE(bias_gradient.allclose(whole.bias_gradient, tolerance, tolerance));
}

TEST(BatchNorm, OverRanksEqualsTorchsOnTheWholeBatch) {
  torch::manual_seed(2);
  for (const auto& shape : kShapes) {
    const at::Tensor batch = torch::randn(shape, at::kDouble) * 3 + 5;
    const at::Tensor gradient = torch::randn(shape, at::kDouble);
    const Pass whole = run_torchs(batch, gradient);
    for (const std::vector<std::int64_t>& begin : std::vector<std::vector<std::int64_t>>{
             {0, 7}, {0, 3, 7}, {0, 1, 7}, {0, 0, 7}, {0, 2, 2, 3, 7}, {0, 7, 7}}) {
      expect_equal(run_over_ranks(batch, gradient, begin), whole, kTolerance);
    }
  }
}

TEST(BatchNorm, OverRanksTakesChannelsLastAndGradientsThatAreNotDense) {
  torch::manual_seed(3);
  const at::Tensor planar = torch::randn({6, kChannels, 4, 4}, at::kDouble);
  const at::Tensor batch = planar.contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor gradient = torch::randn({6, kChannels, 1, 1}, at::kDouble).expand_as(planar);
  const Pass whole = run_torchs(planar, gradient);
  const std::vector<Pass> ranks = run_over_ranks(batch, gradient, {0, 2, 2, 6});
  expect_equal(ranks, whole, kTolerance);
  EXPECT_TRUE(ranks[0].output.is_contiguous(at::MemoryFormat::ChannelsLast));
}

// Squares of the largest errors, added up over batches.
struct Errors {
  double output = 0, input_gradient = 0, running_var = 0;

  void add(const Pass& pass, const Pass& exact) {
    const auto square = [](const at::Tensor& ours, const at::Tensor& exactly) {
      const auto error = (ours.to(at::kDouble) - exactly).abs().max().item<double>();
      return error * error;
    };
    output += square(pass.output, exact.output);
    input_gradient += square(pass.input_gradient, exact.input_gradient);
    running_var += square(pass.running_var, exact.running_var);
  }
};

// The values lie 1e4 deviations from 0, where float32 has a resolution of 1e-3 deviations and a sum
// of squares in float32 no digit left; each rank's lie around another mean. One batch says little:
// what is lost is how three numbers a channel are rounded, of one rank as of several.
TEST(BatchNorm, OverRanksInFloat32KeepsWhatOneRankKeepsWhereTheMeanIsLarge) {
  torch::manual_seed(4);
  const at::Tensor shift = torch::linspace(-1, 1, 64, at::kDouble).view({64, 1, 1, 1});
  Errors alone, together;
  for (int i = 0; i < 16; ++i) {
    const at::Tensor spread = torch::randn({64, kChannels, 3, 3}, at::kDouble);
    const at::Tensor batch = (spread + shift + 1e4).to(at::kFloat);
    const at::Tensor gradient = torch::randn_like(batch);
    const Pass exact = run_torchs(batch.to(at::kDouble), gradient.to(at::kDouble));
    alone.add(run_torchs(batch, gradient), exact);
    const std::vector<Pass> ranks = run_over_ranks(batch, gradient, {0, 5, 30, 64});
    Pass whole = ranks[0];
    whole.output = torch::cat({ranks[0].output, ranks[1].output, ranks[2].output});
    whole.input_gradient =
        torch::cat({ranks[0].input_gradient, ranks[1].input_gradient, ranks[2].input_gradient});
    together.add(whole, exact);
  }
  const auto ratio = [](double a, double b) { return std::sqrt(a / b); };
  EXPECT_LE(ratio(together.output, alone.output), 1.5);
  EXPECT_LE(ratio(together.input_gradient, alone.input_gradient), 1.5);
  EXPECT_LE(ratio(together.running_var, alone.running_var), 1.5);
}

TEST(BatchNorm, OverRanksInFloat64LosesNothingWhereTheMeanIsLarge) {
  torch::manual_seed(5);
  const at::Tensor batch = torch::randn({64, kChannels}, at::kDouble) + 1e6;
  const at::Tensor gradient = torch::randn_like(batch);
  const std::vector<Pass> ranks = run_over_ranks(batch, gradient, {0, 30, 64});
  const at::Tensor exact = batch.var(0, /*unbiased=*/true) * 0.1 + 0.9;
  EXPECT_TRUE(ranks[0].running_var.allclose(exact, 1e-9, 0));
}

// Only rank 0 runs the layer: a wait for rank 1 would end in a CommError.
TEST(BatchNorm, OverRanksWaitsForNobodyInEvaluation) {
  run_as_threads(2, [](Communicator& world) {
    BatchNorm layer(kChannels);
    layer.bind(world, "norm");
    layer.eval();
    const at::Tensor batch = torch::randn({2, kChannels}).requires_grad_();
    if (world.rank() != 0) return;
    const at::Tensor output = layer.forward(batch);
    output.sum().backward();
    EXPECT_TRUE(output.allclose(batch / std::sqrt(1 + 1e-5)));
  });
}

TEST(BatchNorm, OverRanksWaitsForNobodyInTheBackwardOfAnInputWithoutGradient) {
  run_as_threads(2, [](Communicator& world) {
    BatchNorm layer(kChannels);
    layer.bind(world, "norm");
    const at::Tensor output = layer.forward(torch::randn({2, kChannels}));
    if (world.rank() != 0) return;
    output.square().sum().backward();
    EXPECT_GT(layer.weight.grad().abs().sum().item<double>(), 0);
  });
}

void expect_too_few(const std::function<void()>& body) {
  try {
    body();
    FAIL() << "one value a channel was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("fewer than two values"), std::string::npos)
        << error.what();
  }
}

TEST(BatchNorm, RefusesOneValueAChannelInTraining) {
  BatchNorm alone(kChannels);
  expect_too_few([&] { alone.forward(torch::randn({1, kChannels, 1, 1})); });
  alone.eval();
  EXPECT_NO_THROW(alone.forward(torch::randn({1, kChannels, 1, 1})));
  run_as_threads(3, [](Communicator& world) {
    BatchNorm layer(kChannels);
    layer.bind(world, "norm");
    expect_too_few([&] { layer.forward(torch::randn({world.rank() == 1 ? 1 : 0, kChannels})); });
    EXPECT_NO_THROW(layer.forward(torch::randn({world.rank() == 1 ? 2 : 0, kChannels})));
  });
}

TEST(BatchNorm, RefusesAnotherNumberOfChannels) {
  BatchNorm layer(kChannels);
  EXPECT_THROW(layer.forward(torch::randn({2, kChannels + 1, 4, 4})), c10::Error);
  EXPECT_THROW(layer.forward(torch::randn({kChannels})), c10::Error);
}

TEST(BatchNorm, OverRanksRefusesASecondDerivative) {
  run_as_threads(2, [](Communicator& world) {
    BatchNorm layer(kChannels);
    layer.bind(world, "norm");
    const at::Tensor batch = torch::randn({2, kChannels}).requires_grad_();
    const at::Tensor loss = layer.forward(batch).square().sum();
    EXPECT_THROW(torch::autograd::grad({loss}, {batch}, /*grad_outputs=*/{}, /*retain_graph=*/true,
                                       /*create_graph=*/true),
                 InternalError);
  });
}

TEST(BatchNorm, NamesItselfWhereARankDoesNotCome) {
  for (const bool in_backward : {false, true}) {
    std::string message;
    const auto body = [&](Communicator& world) {
      BatchNorm layer(kChannels);
      layer.bind(world, "layer1.0.bn2");
      if (world.rank() == 1 && !in_backward) throw DataError("sample 3 is damaged");
      const at::Tensor batch = torch::randn({2, kChannels}).requires_grad_();
      try {
        const at::Tensor output = layer.forward(batch);
        if (world.rank() == 1) throw DataError("sample 3 is damaged");
        output.sum().backward();
      } catch (const CommError& error) {
        message = error.what();
        throw;
      }
    };
    EXPECT_THROW(run_as_threads(2, body), DataError);
    EXPECT_NE(message.find("BatchNorm 'layer1.0.bn2': "), std::string::npos) << message;
    EXPECT_NE(message.find(in_backward ? "all_reduce" : "all_gather"), std::string::npos)
        << message;
  }
}

}  // namespace
}  // namespace trireme
