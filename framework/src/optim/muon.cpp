// SPDX-License-Identifier: Apache-2.0
// Muon: momentum, whose direction is made orthogonal by Newton-Schulz iterations.
// K. Jordan, "Muon: An optimizer for hidden layers in neural networks" (2024); coefficients and the
// scale sqrt(max(1, rows / columns)) are those of his muon.py, where momentum is an average: the
// direction gradient + momentum * slot is the same up to a factor, which the division by the norm
// removes. The variant that normalises weights, without that scale, is his CIFAR-10 recipe
// ("airbench94_muon").
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/matmul.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "optim/rules.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

// The matrix (rows, everything else) in logical order, so that the result does not depend on the
// memory layout.
at::Tensor as_matrix(const at::Tensor& tensor) { return tensor.reshape({tensor.size(0), -1}); }

// Moves the singular values of `matrix` towards 1 and keeps its singular vectors.
at::Tensor orthogonalize(const at::Tensor& matrix, std::int64_t steps) {
  constexpr double kLinear = 3.4445, kCubic = -4.7750, kQuintic = 2.0315;
  const bool tall = matrix.size(0) > matrix.size(1);  // the smaller Gram matrix costs less
  at::Tensor x = matrix / (matrix.norm() + 1e-7);
  if (tall) x = x.t();
  for (std::int64_t i = 0; i < steps; ++i) {
    const at::Tensor gram = at::matmul(x, x.t());
    x = kLinear * x + at::matmul(kCubic * gram + kQuintic * at::matmul(gram, gram), x);
  }
  return tall ? x.t() : x;
}

class Muon final : public Optimizer {
 public:
  explicit Muon(OptimizerConfig config) : config_(std::move(config)) {}
  std::vector<std::string> slots() const override { return {"momentum"}; }
  bool needs_whole_parameters() const override { return true; }

  // Multiplications: each iteration multiplies (m, n) by (n, m) twice and (m, m) by (m, m) once.
  double cost(const std::vector<std::int64_t>& shape) const override {
    double columns = 1;
    for (std::size_t i = 1; i < shape.size(); ++i) columns *= static_cast<double>(shape[i]);
    const double rows = static_cast<double>(shape.at(0));
    const double m = std::min(rows, columns), n = std::max(rows, columns);
    return static_cast<double>(config_.muon_steps) * m * m * (2 * n + m);
  }

  void step(Update& update) const override {
    TRIREME_ASSERT(update.parameter.dim() >= 2, "muon updates matrices");
    const at::NoGradGuard no_grad;
    at::Tensor& parameter = update.parameter;
    at::Tensor& momentum = update.slots[0];
    momentum.mul_(config_.momentum).add_(update.gradient);
    const at::Tensor direction = orthogonalize(
        as_matrix(update.gradient.add(momentum, config_.momentum)), config_.muon_steps);
    const double rows = static_cast<double>(direction.size(0));
    const double columns = static_cast<double>(direction.size(1));
    double scale = 1;
    if (config_.muon_normalize_weights) {
      // A weight of zeros stays as it is.
      parameter.mul_(std::sqrt(rows) / as_matrix(parameter).norm().clamp_min(1e-7));
    } else {
      scale = std::sqrt(std::max(1.0, rows / columns));
    }
    if (config_.weight_decay > 0) parameter.mul_(1 - update.lr * config_.weight_decay);
    parameter.sub_(direction.reshape(parameter.sizes()), update.lr * scale);
  }

 private:
  OptimizerConfig config_;
};

}  // namespace

std::unique_ptr<Optimizer> make_muon(const OptimizerConfig& config) {
  return std::make_unique<Muon>(config);
}

}  // namespace trireme
