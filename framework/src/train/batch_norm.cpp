// SPDX-License-Identifier: Apache-2.0
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/batch_norm_update_stats.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "comm/shared_error.hpp"
#include "parallel/flat_parameters.hpp"
#include "trireme/error.hpp"
#include "trireme/model.hpp"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const char* const kTooFew =
    "fewer than two values a channel in a training batch have no variance; raise train.micro_batch "
    "or train.global_batch, or leave an incomplete last batch out with data.drop_last: true";

// The ranks whose batches count as one, and the layer's name.
struct Ranks : torch::CustomClassHolder {
  Ranks(Communicator& c, std::string n) : communicator(c), layer(std::move(n)) {}

  // Runs a collective, and names the layer where it fails.
  void call(const std::function<void()>& collective) const {
    try {
      collective();
    } catch (const CommError& error) {
      throw CommError("BatchNorm '" + layer + "': " + error.what());
    }
  }

  Communicator& communicator;
  const std::string layer;
};

// Of the values of each channel.
struct Moments {
  double count = 0;
  at::Tensor mean, m2;  // (C) float64; m2: the sum of squared deviations from the mean
};

// (1 + 2C) float64: count, means, m2 of this rank's values.
at::Tensor local_moments(const at::Tensor& input) {
  const std::int64_t channels = input.size(1);
  const at::Tensor row = at::zeros({1 + 2 * channels}, at::kDouble);
  if (input.numel() == 0) return row;
  const std::int64_t values = input.numel() / channels;
  const auto count = static_cast<double>(values);
  // In float32 the mean would be rounded here already, by as much as the merged one will be.
  const auto [mean, variance] = at::batch_norm_update_stats(
      input.to(at::kDouble), /*running_mean=*/{}, /*running_var=*/{}, /*momentum=*/0);
  row[0].fill_(count);
  row.narrow(0, 1, channels).copy_(mean);
  row.narrow(0, 1 + channels, channels).copy_(variance).mul_(count);
  return row;
}

// The moments of all values from those of parts, rows of `parts` (ranks, 1 + 2C): Chan et al. 1983.
// No sum of squares, which would cancel where the mean is large. In plain loops: ranks on different
// processors get the same bits.
Moments merge(const at::Tensor& parts) {
  const std::int64_t ranks = parts.size(0), stride = parts.size(1), channels = (stride - 1) / 2;
  const double* const part = parts.const_data_ptr<double>();
  Moments all{.mean = at::zeros({channels}, at::kDouble), .m2 = at::zeros({channels}, at::kDouble)};
  double* const mean = all.mean.mutable_data_ptr<double>();
  double* const m2 = all.m2.mutable_data_ptr<double>();
  for (std::int64_t r = 0; r < ranks; ++r) all.count += part[r * stride];
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t r = 0; r < ranks; ++r)
      mean[c] += part[r * stride] / all.count * part[r * stride + 1 + c];
    for (std::int64_t r = 0; r < ranks; ++r) {
      const double deviation = part[r * stride + 1 + c] - mean[c];
      m2[c] += part[r * stride + 1 + channels + c] + part[r * stride] * deviation * deviation;
    }
  }
  return all;
}

// Collective.
Moments moments_over_ranks(const at::Tensor& input, const Ranks& ranks) {
  const at::Tensor own = local_moments(input);
  const auto stride = static_cast<std::size_t>(own.numel());
  std::vector<std::size_t> offsets{0};
  for (int r = 0; r < ranks.communicator.size(); ++r) offsets.push_back(offsets.back() + stride);
  const at::Tensor parts = at::zeros({ranks.communicator.size(), own.numel()}, at::kDouble);
  parts[ranks.communicator.rank()].copy_(own);
  ranks.call([&] { ranks.communicator.all_gather(span_of(parts.view({-1})), offsets).wait(); });
  return merge(parts);
}

// (input - mean) / sqrt(variance + eps) * weight + bias, per channel.
at::Tensor normalise(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                     const at::Tensor& mean, const at::Tensor& variance, double eps) {
  if (input.numel() == 0) return input.clone();
  return std::get<0>(at::native_batch_norm(input, weight, bias, mean, variance, /*training=*/false,
                                           /*momentum=*/0, eps));
}

// Normalises by given statistics, of `count` values, as if they were computed here: backward takes
// into account that they depend on the inputs of all ranks.
class NormaliseOverRanks : public torch::autograd::Function<NormaliseOverRanks> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const at::Tensor& mean, const at::Tensor& variance, double count,
                            double eps, const c10::intrusive_ptr<Ranks>& ranks) {
    context->save_for_backward({input, weight, mean, variance});
    context->saved_data["count"] = count;
    context->saved_data["eps"] = eps;
    context->saved_data["ranks"] = c10::IValue::make_capsule(ranks);
    return normalise(input, weight, bias, mean, variance, eps);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TRIREME_ASSERT(!at::GradMode::is_enabled(),
                   "a BatchNorm over ranks has no second derivative (create_graph)");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1], &mean = saved[2], &variance = saved[3];
    const double eps = context->saved_data["eps"].toDouble();
    // With the statistics held fixed. The sums are what weight and bias get, too.
    auto [input_gradient, weight_gradient, bias_gradient] =
        with_fixed_statistics(gradients[0], input, weight, mean, variance, eps);
    if (context->needs_input_grad(0)) {
      const auto capsule = context->saved_data["ranks"].toCapsule();
      const double count = context->saved_data["count"].toDouble();
      auto [slope, offset] = means_over_ranks(weight_gradient, bias_gradient, count,
                                              static_cast<const Ranks&>(*capsule));
      const at::Tensor scale = weight / (variance + eps).sqrt();
      input_gradient.sub_(normalise(input, scale * slope, scale * offset, mean, variance, eps));
    }
    return {input_gradient, weight_gradient, bias_gradient, {}, {}, {}, {}, {}};
  }

 private:
  using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;  // of input, weight, bias

  static Gradients with_fixed_statistics(const at::Tensor& gradient, const at::Tensor& input,
                                         const at::Tensor& weight, const at::Tensor& mean,
                                         const at::Tensor& variance, double eps) {
    if (input.numel() == 0)
      return {gradient.clone(), at::zeros_like(weight), at::zeros_like(weight)};
    return at::native_batch_norm_backward(gradient, input, weight, mean, variance, /*save_mean=*/{},
                                          /*save_invstd=*/{}, /*train=*/false, eps,
                                          {true, true, true});
  }

  // Collective. What this rank summed up, over all values of all ranks: the mean.
  static std::pair<at::Tensor, at::Tensor> means_over_ranks(const at::Tensor& first,
                                                            const at::Tensor& second, double count,
                                                            const Ranks& ranks) {
    const std::int64_t channels = first.numel();
    const at::Tensor sums = at::zeros({2 * channels}, at::kDouble);
    sums.narrow(0, 0, channels).copy_(first);
    sums.narrow(0, channels, channels).copy_(second);
    ranks.call([&] { ranks.communicator.all_reduce(span_of(sums)).wait(); });
    const at::Tensor means = sums.div_(count).to(first.options());
    return {means.narrow(0, 0, channels), means.narrow(0, channels, channels)};
  }
};

}  // namespace

BatchNorm::BatchNorm(std::int64_t channels, const BatchNormOptions& options) : options_(options) {
  TRIREME_ASSERT(channels > 0, "a BatchNorm has channels");
  TRIREME_ASSERT(options.eps > 0 && options.momentum >= 0 && options.momentum <= 1,
                 "a BatchNorm's eps is positive, its momentum in [0, 1]");
  weight = register_parameter("weight", at::ones({channels}));
  bias = register_parameter("bias", at::zeros({channels}));
  running_mean = register_buffer("running_mean", at::zeros({channels}));
  running_var = register_buffer("running_var", at::ones({channels}));
  num_batches_tracked = register_buffer("num_batches_tracked", at::zeros({}, at::kLong));
}

void BatchNorm::bind(Communicator& ranks, std::string name) {
  ranks_ = &ranks;
  name_ = std::move(name);
}

torch::Tensor BatchNorm::forward(const torch::Tensor& input) {
  TORCH_CHECK(input.dim() >= 2 && input.size(1) == weight.size(0), "BatchNorm expects (N, ",
              weight.size(0), ", ...), got ", input.sizes());
  if (is_training()) num_batches_tracked.add_(1);
  if (is_training() && is_bound()) return forward_over_ranks(input);
  if (is_training() && input.numel() == weight.numel()) {
    throw ConfigError(std::string("BatchNorm: ") + kTooFew);
  }
  return at::batch_norm(input, weight, bias, running_mean, running_var, is_training(),
                        options_.momentum, options_.eps, at::globalContext().userEnabledCuDNN());
}

torch::Tensor BatchNorm::forward_over_ranks(const torch::Tensor& input) {
  const auto ranks = c10::make_intrusive<Ranks>(*ranks_, name_);
  Moments all;
  {
    const at::NoGradGuard no_grad;
    all = moments_over_ranks(input, *ranks);
    if (all.count < 2) {
      throw SharedError(ExitCode::kUsage, "BatchNorm '" + name_ + "' over ranks: " + kTooFew);
    }
    const auto track = [&](at::Tensor& running, const at::Tensor& seen) {
      running.mul_(1 - options_.momentum).add_((seen * options_.momentum).to(running.options()));
    };
    track(running_mean, all.mean);
    track(running_var, all.m2 / (all.count - 1));
  }
  return NormaliseOverRanks::apply(input, weight, bias, all.mean.to(input.options()),
                                   (all.m2 / all.count).to(input.options()), all.count,
                                   options_.eps, ranks);
}

}  // namespace trireme
