// SPDX-License-Identifier: Apache-2.0
// SGD, Adam and AdamW through ATen's fused kernels: one pass over parameter, gradient and slots.
// The kernels take whole vector registers, and what is left at the end of a piece one by one, which
// rounds differently: a sharded update equals the unsharded one bit for bit where pieces start and
// end at multiples of 64 bytes, as those of a bucket do.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/scalar_tensor.h>

#include <functional>
#include <numeric>
#include <utility>

#include "optim/rules.hpp"

namespace trireme {
namespace {

double num_elements(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), 1.0, std::multiplies<>());
}

class Sgd final : public Optimizer {
 public:
  explicit Sgd(OptimizerConfig config) : config_(std::move(config)) {}
  std::vector<std::string> slots() const override {
    return config_.momentum > 0 ? std::vector<std::string>{"momentum"} : std::vector<std::string>{};
  }
  double cost(const std::vector<std::int64_t>& shape) const override { return num_elements(shape); }

  void step(Update& update) const override {
    const at::NoGradGuard no_grad;
    // Never "the first step": that one copies the gradient into the slot, and a slot of zeros gives
    // the same.
    at::_fused_sgd_(update.parameter, update.gradient, update.slots, config_.weight_decay,
                    config_.momentum, update.lr, /*dampening=*/0, config_.nesterov,
                    /*maximize=*/false, /*is_first_step=*/false);
  }

 private:
  OptimizerConfig config_;
};

class Adam final : public Optimizer {
 public:
  enum class Decay { kCoupled, kDecoupled };
  Adam(OptimizerConfig config, Decay decay) : config_(std::move(config)), decay_(decay) {}
  std::vector<std::string> slots() const override { return {"exp_avg", "exp_avg_sq"}; }
  double cost(const std::vector<std::int64_t>& shape) const override { return num_elements(shape); }

  void step(Update& update) const override {
    const at::NoGradGuard no_grad;
    // The kernels take the step count as a float32 tensor (exact up to 2^24) on the parameter's
    // device.
    const at::Tensor step = at::scalar_tensor(static_cast<double>(update.step),
                                              update.parameter.options().dtype(at::kFloat));
    using Kernel =
        void (*)(at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                 at::TensorList, double, double, double, double, double, bool, bool,
                 const std::optional<at::Tensor>&, const std::optional<at::Tensor>&);
    const Kernel kernel =
        decay_ == Decay::kCoupled ? Kernel{at::_fused_adam_} : Kernel{at::_fused_adamw_};
    kernel(update.parameter, update.gradient, update.slots[0], update.slots[1],
           /*max_exp_avg_sqs=*/at::TensorList(), step, update.lr, config_.beta1, config_.beta2,
           config_.weight_decay, config_.eps, /*amsgrad=*/false, /*maximize=*/false,
           /*grad_scale=*/std::nullopt, /*found_inf=*/std::nullopt);
  }

 private:
  OptimizerConfig config_;
  Decay decay_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const OptimizerConfig& config) {
  return std::make_unique<Sgd>(config);
}

std::unique_ptr<Optimizer> make_adam(const OptimizerConfig& config) {
  return std::make_unique<Adam>(config, Adam::Decay::kCoupled);
}

std::unique_ptr<Optimizer> make_adamw(const OptimizerConfig& config) {
  return std::make_unique<Adam>(config, Adam::Decay::kDecoupled);
}

}  // namespace trireme
