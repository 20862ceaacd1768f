// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <cmath>

#include "optim/optimizer.hpp"

namespace trireme {
namespace {

using Matrix = std::vector<std::vector<double>>;  // [row][column]

OptimizerConfig settings(bool normalize) {
  OptimizerConfig config;
  config.name = "muon";
  config.momentum = 0.6;
  config.weight_decay = 0.3;
  config.muon_steps = 3;
  config.muon_normalize_weights = normalize;
  return config;
}

Matrix transpose(const Matrix& a) {
  Matrix t(a[0].size(), std::vector<double>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[0].size(); ++j) t[j][i] = a[i][j];
  }
  return t;
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.size(), std::vector<double>(b[0].size(), 0));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b[0].size(); ++j) {
      for (std::size_t k = 0; k < b.size(); ++k) c[i][j] += a[i][k] * b[k][j];
    }
  }
  return c;
}

double norm(const Matrix& a) {
  double sum = 0;
  for (const auto& row : a) {
    for (const double value : row) sum += value * value;
  }
  return std::sqrt(sum);
}

// x -> a x + b (x x') x + c (x x') (x x') x, of a matrix that is not tall.
Matrix newton_schulz(Matrix x, std::int64_t steps) {
  const double length = norm(x) + 1e-7;
  for (auto& row : x) {
    for (double& value : row) value /= length;
  }
  for (std::int64_t s = 0; s < steps; ++s) {
    const Matrix gram = product(x, transpose(x));
    const Matrix cubic = product(gram, x), quintic = product(gram, cubic);
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (std::size_t j = 0; j < x[0].size(); ++j) {
        x[i][j] = 3.4445 * x[i][j] - 4.7750 * cubic[i][j] + 2.0315 * quintic[i][j];
      }
    }
  }
  return x;
}

Matrix to_matrix(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.reshape({tensor.size(0), -1});
  Matrix matrix(static_cast<std::size_t>(flat.size(0)));
  for (std::int64_t i = 0; i < flat.size(0); ++i) {
    for (std::int64_t j = 0; j < flat.size(1); ++j) {
      matrix[static_cast<std::size_t>(i)].push_back(flat[i][j].item<double>());
    }
  }
  return matrix;
}

struct Naive {
  Matrix parameter, momentum;

  void step(const Matrix& gradient, const OptimizerConfig& config, double lr) {
    const double rows = static_cast<double>(parameter.size());
    const double columns = static_cast<double>(parameter[0].size());
    Matrix direction = gradient;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      for (std::size_t j = 0; j < gradient[0].size(); ++j) {
        momentum[i][j] = config.momentum * momentum[i][j] + gradient[i][j];
        direction[i][j] += config.momentum * momentum[i][j];
      }
    }
    const bool tall = rows > columns;
    direction = newton_schulz(tall ? transpose(direction) : direction, config.muon_steps);
    if (tall) direction = transpose(direction);
    const bool normalize = config.muon_normalize_weights;
    const double to_length = normalize ? std::sqrt(rows) / norm(parameter) : 1;
    const double scale = normalize ? 1 : std::sqrt(std::max(1.0, rows / columns));
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      for (std::size_t j = 0; j < gradient[0].size(); ++j) {
        parameter[i][j] *= to_length * (1 - lr * config.weight_decay);
        parameter[i][j] -= lr * scale * direction[i][j];
      }
    }
  }
};

void expect_naive(at::IntArrayRef shape, const OptimizerConfig& config) {
  torch::manual_seed(1);
  const auto rule = make_optimizer(config);
  Update update{.parameter = torch::randn(shape, torch::kDouble),
                .gradient = {},
                .slots = {torch::zeros(shape, torch::kDouble)}};
  Naive naive{.parameter = to_matrix(update.parameter), .momentum = to_matrix(update.slots[0])};
  for (std::int64_t step = 1; step <= 4; ++step) {
    update.gradient = torch::randn(shape, torch::kDouble);
    update.lr = 0.1 / static_cast<double>(step);
    update.step = step;
    naive.step(to_matrix(update.gradient), config, update.lr);
    rule->step(update);
    const Matrix result = to_matrix(update.parameter);
    for (std::size_t i = 0; i < result.size(); ++i) {
      for (std::size_t j = 0; j < result[0].size(); ++j) {
        ASSERT_NEAR(result[i][j], naive.parameter[i][j], 1e-12) << shape << " step " << step;
      }
    }
  }
}

TEST(Muon, EqualsItsFormula) {
  for (const bool normalize : {false, true}) {
    expect_naive({3, 7}, settings(normalize));        // wide
    expect_naive({7, 3}, settings(normalize));        // tall
    expect_naive({6, 2, 3, 3}, settings(normalize));  // a convolution
  }
}

TEST(Muon, MakesTheUpdateNearlyOrthogonal) {
  torch::manual_seed(2);
  OptimizerConfig config = settings(/*normalize=*/false);
  config.weight_decay = 0;
  config.muon_steps = 5;
  Update update{.parameter = torch::zeros({8, 8}, torch::kDouble),
                .gradient = torch::randn({8, 8}, torch::kDouble),
                .slots = {torch::zeros({8, 8}, torch::kDouble)},
                .lr = 1};
  make_optimizer(config)->step(update);
  const at::Tensor singular = at::linalg_svdvals(update.parameter);
  EXPECT_LT(singular.max().item<double>(), 1.3);
  EXPECT_GT(singular.median().item<double>(), 0.6);
}

TEST(Muon, DoesNotDependOnTheMemoryLayoutAndKeepsIt) {
  for (const bool normalize : {false, true}) {
    const auto rule = make_optimizer(settings(normalize));
    torch::manual_seed(3);
    Update plain{.parameter = torch::randn({4, 3, 5, 5}),
                 .gradient = torch::randn({4, 3, 5, 5}),
                 .slots = {torch::randn({4, 3, 5, 5})},
                 .lr = 0.1};
    const auto relaid = [](const at::Tensor& t) { return t.clone(at::MemoryFormat::ChannelsLast); };
    Update last{.parameter = relaid(plain.parameter),
                .gradient = relaid(plain.gradient),
                .slots = {relaid(plain.slots[0])},
                .lr = plain.lr};
    const void* memory = last.parameter.data_ptr();
    rule->step(plain);
    rule->step(last);
    EXPECT_TRUE(plain.parameter.equal(last.parameter));
    EXPECT_TRUE(plain.slots[0].equal(last.slots[0]));
    EXPECT_EQ(last.parameter.data_ptr(), memory);
    EXPECT_TRUE(last.parameter.is_contiguous(at::MemoryFormat::ChannelsLast));
  }
}

TEST(Muon, LeavesAWeightOfZerosWithoutGradientAlone) {
  Update update{.parameter = torch::zeros({2, 3}),
                .gradient = torch::zeros({2, 3}),
                .slots = {torch::zeros({2, 3})},
                .lr = 1};
  make_optimizer(settings(/*normalize=*/true))->step(update);
  EXPECT_TRUE(update.parameter.equal(torch::zeros({2, 3})));
}

TEST(Muon, CostCountsTheMultiplicationsOfTheSmallerGramMatrix) {
  const auto rule = make_optimizer(settings(/*normalize=*/false));
  EXPECT_EQ(rule->cost({2, 5}), 3 * (2 * 2 * 2 * 5 + 2 * 2 * 2));
  EXPECT_EQ(rule->cost({5, 2}), rule->cost({2, 5}));
  EXPECT_EQ(rule->cost({2, 5, 1, 1}), rule->cost({2, 5}));
}

}  // namespace
}  // namespace trireme
