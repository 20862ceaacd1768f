// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <cmath>
#include <functional>

#include "optim/optimizer.hpp"

namespace trireme {
namespace {

constexpr double kRate = 0.05;

OptimizerConfig settings(const char* name) {
  OptimizerConfig config;
  config.name = name;
  config.lr = kRate;
  config.weight_decay = 0.1;
  config.momentum = 0.9;
  config.beta1 = 0.8;
  config.beta2 = 0.95;
  config.eps = 1e-6;
  return config;
}

at::Tensor values(std::int64_t seed, std::int64_t n, at::ScalarType dtype) {
  torch::manual_seed(static_cast<std::uint64_t>(seed));
  return torch::randn({n}, torch::TensorOptions().dtype(dtype));
}

struct State {
  at::Tensor parameter;
  std::vector<at::Tensor> slots;
};

State fresh(const Optimizer& rule, const at::Tensor& start) {
  State state{.parameter = start.clone(), .slots = {}};
  for (std::size_t i = 0; i < rule.slots().size(); ++i) {
    state.slots.push_back(torch::zeros_like(start));
  }
  return state;
}

void apply(const Optimizer& rule, State& state, const at::Tensor& gradient, std::int64_t step,
           double lr = kRate) {
  Update update{.parameter = state.parameter,
                .gradient = gradient.clone(),
                .slots = state.slots,
                .lr = lr,
                .step = step};
  rule.step(update);
}

// One scalar of each rule, written down from its paper.
struct Scalar {
  double p, first = 0, second = 0;
};

void naive_sgd(Scalar& s, double g, const OptimizerConfig& c, std::int64_t) {
  g += c.weight_decay * s.p;
  s.first = c.momentum * s.first + g;
  s.p -= kRate * (c.nesterov ? g + c.momentum * s.first : s.first);
}

void naive_adam(Scalar& s, double g, const OptimizerConfig& c, std::int64_t step) {
  if (c.name == "adamw") {
    s.p -= kRate * c.weight_decay * s.p;
  } else {
    g += c.weight_decay * s.p;
  }
  s.first = c.beta1 * s.first + (1 - c.beta1) * g;
  s.second = c.beta2 * s.second + (1 - c.beta2) * g * g;
  const double t = static_cast<double>(step);
  const double mean = s.first / (1 - std::pow(c.beta1, t));
  const double square = s.second / (1 - std::pow(c.beta2, t));
  s.p -= kRate * mean / (std::sqrt(square) + c.eps);
}

using Naive = void (*)(Scalar&, double, const OptimizerConfig&, std::int64_t);

void expect_naive(const OptimizerConfig& config, Naive naive) {
  constexpr std::int64_t kCount = 37;
  const auto rule = make_optimizer(config);
  const at::Tensor start = values(1, kCount, at::kDouble);
  State state = fresh(*rule, start);
  std::vector<Scalar> expected;
  for (std::int64_t i = 0; i < kCount; ++i) expected.push_back({.p = start[i].item<double>()});
  for (std::int64_t step = 1; step <= 10; ++step) {
    const at::Tensor gradient = values(100 + step, kCount, at::kDouble);
    apply(*rule, state, gradient, step);
    for (std::int64_t i = 0; i < kCount; ++i) {
      Scalar& scalar = expected[static_cast<std::size_t>(i)];
      naive(scalar, gradient[i].item<double>(), config, step);
      ASSERT_NEAR(state.parameter[i].item<double>(), scalar.p, 1e-13) << config.name << " " << step;
    }
  }
}

TEST(Rules, EqualTheirFormulasInDouble) {
  OptimizerConfig config = settings("sgd");
  expect_naive(config, naive_sgd);
  config.nesterov = true;
  expect_naive(config, naive_sgd);
  config.nesterov = false;
  config.momentum = 0;
  expect_naive(config, naive_sgd);
  expect_naive(settings("adam"), naive_adam);
  expect_naive(settings("adamw"), naive_adam);
}

// Ten steps of a rule and of the torch::optim class that `reference` makes.
template <class Reference>
void expect_torch(const OptimizerConfig& config, const Reference& reference) {
  for (const auto& [dtype, tolerance] : {std::pair{at::kDouble, 1e-14}, {at::kFloat, 1e-6}}) {
    const auto rule = make_optimizer(config);
    const at::Tensor start = values(2, 1000, dtype);
    State state = fresh(*rule, start);
    at::Tensor parameter = start.clone().requires_grad_();
    auto optimizer = reference(parameter);
    for (std::int64_t step = 1; step <= 10; ++step) {
      parameter.mutable_grad() = values(200 + step, 1000, dtype);
      apply(*rule, state, parameter.grad(), step);
      optimizer.step();
      const at::Tensor difference = (state.parameter - parameter.detach()).abs().max();
      EXPECT_LE(difference.item<double>(), tolerance) << config.name << " step " << step;
    }
  }
}

TEST(Rules, EqualTorchsStepForStep) {
  OptimizerConfig sgd = settings("sgd");
  sgd.nesterov = true;
  expect_torch(sgd, [&](const at::Tensor& p) {
    return torch::optim::SGD({p}, torch::optim::SGDOptions(kRate)
                                      .momentum(sgd.momentum)
                                      .weight_decay(sgd.weight_decay)
                                      .nesterov(true));
  });
  const OptimizerConfig adam = settings("adam");
  expect_torch(adam, [&](const at::Tensor& p) {
    return torch::optim::Adam({p}, torch::optim::AdamOptions(kRate)
                                       .betas({adam.beta1, adam.beta2})
                                       .eps(adam.eps)
                                       .weight_decay(adam.weight_decay));
  });
  const OptimizerConfig adamw = settings("adamw");
  expect_torch(adamw, [&](const at::Tensor& p) {
    return torch::optim::AdamW({p}, torch::optim::AdamWOptions(kRate)
                                        .betas({adamw.beta1, adamw.beta2})
                                        .eps(adamw.eps)
                                        .weight_decay(adamw.weight_decay));
  });
}

State piece(const State& state, std::int64_t begin, std::int64_t end) {
  State result{.parameter = state.parameter.slice(0, begin, end), .slots = {}};
  for (const at::Tensor& slot : state.slots) result.slots.push_back(slot.slice(0, begin, end));
  return result;
}

TEST(Rules, ShardsCutAtMultiplesOf64BytesEqualTheWholeBitwise) {
  // More elements than one thread takes, and an odd end.
  const std::vector<std::int64_t> borders{0, 16, 32, 1008, 40000, 70003};
  for (const char* name : {"sgd", "adam", "adamw"}) {
    for (const auto dtype : {at::kFloat, at::kDouble}) {
      const auto rule = make_optimizer(settings(name));
      const at::Tensor start = values(3, borders.back(), dtype);
      State whole = fresh(*rule, start), sharded = fresh(*rule, start);
      for (std::int64_t step = 1; step <= 3; ++step) {
        const at::Tensor gradient = values(300 + step, borders.back(), dtype);
        apply(*rule, whole, gradient, step);
        for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
          State shard = piece(sharded, borders[i], borders[i + 1]);
          apply(*rule, shard, gradient.slice(0, borders[i], borders[i + 1]), step);
        }
      }
      EXPECT_TRUE(whole.parameter.equal(sharded.parameter)) << name;
      for (std::size_t i = 0; i < whole.slots.size(); ++i) {
        EXPECT_TRUE(whole.slots[i].equal(sharded.slots[i])) << name;
      }
    }
  }
}

TEST(Rules, TheScheduledRateCountsNotTheConfiguredOne) {
  const auto rule = make_optimizer(settings("sgd"));
  const at::Tensor start = values(4, 5, at::kDouble);
  State state = fresh(*rule, start);
  apply(*rule, state, values(5, 5, at::kDouble), 1, /*lr=*/0);
  EXPECT_TRUE(state.parameter.equal(start));
}

TEST(Rules, NameTheirSlots) {
  OptimizerConfig config = settings("sgd");
  EXPECT_EQ(make_optimizer(config)->slots(), std::vector<std::string>{"momentum"});
  config.momentum = 0;
  EXPECT_TRUE(make_optimizer(config)->slots().empty());
  const std::vector<std::string> moments{"exp_avg", "exp_avg_sq"};
  EXPECT_EQ(make_optimizer(settings("adam"))->slots(), moments);
  EXPECT_EQ(make_optimizer(settings("adamw"))->slots(), moments);
  for (const char* name : {"sgd", "adam", "adamw", "muon"}) {
    EXPECT_EQ(make_optimizer(settings(name))->needs_whole_parameters(),
              std::string(name) == "muon");
  }
}

TEST(Rules, CostOfElementwiseRulesIsTheNumberOfElements) {
  for (const char* name : {"sgd", "adam", "adamw"}) {
    EXPECT_EQ(make_optimizer(settings(name))->cost({3, 4, 5}), 60);
  }
}

}  // namespace
}  // namespace trireme
