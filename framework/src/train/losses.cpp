// SPDX-License-Identifier: Apache-2.0
#include "train/losses.hpp"

#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>

#include <sstream>

#include "trireme/error.hpp"

namespace trireme {
namespace {

[[noreturn]] void fail_to_fit(const char* what, const at::Tensor& output, const at::Tensor& target,
                              const char* expected) {
  std::ostringstream message;
  message << what << ": the model gives " << output.sizes() << " for targets of shape "
          << target.sizes() << "; expected " << expected
          << ". Choose a model and a loss that fit the data set";
  throw ConfigError(message.str());
}

// The classes, flat, once it is sure that `output` has one row for each.
at::Tensor classes(const char* what, const at::Tensor& output, const at::Tensor& target) {
  if (output.dim() != 2 || output.size(0) != target.numel() || target.scalar_type() != at::kLong) {
    fail_to_fit(what, output, target, "one row of scores for each class id");
  }
  return target.reshape({-1});
}

// The output in the shape of the real targets.
at::Tensor values(const char* what, const at::Tensor& output, const at::Tensor& target) {
  if (output.numel() != target.numel() || !target.is_floating_point()) {
    fail_to_fit(what, output, target, "one output for each real target");
  }
  return output.reshape(target.sizes());
}

LossFunction make_cross_entropy(const Options& options) {
  const double smoothing = options.get<double>("label_smoothing");
  return [smoothing](const at::Tensor& output, const at::Tensor& target) {
    return at::cross_entropy_loss(output, classes("cross_entropy", output, target), /*weight=*/{},
                                  at::Reduction::Sum, /*ignore_index=*/-100, smoothing);
  };
}

LossFunction make_mse(const Options&) {
  return [](const at::Tensor& output, const at::Tensor& target) {
    return at::mse_loss(values("mse", output, target), target.to(output.scalar_type()),
                        at::Reduction::Sum);
  };
}

at::Tensor accuracy(const at::Tensor& output, const at::Tensor& target) {
  return output.argmax(1).eq(classes("accuracy", output, target)).sum().to(at::kDouble);
}

at::Tensor absolute_error(const at::Tensor& output, const at::Tensor& target) {
  return values("mean_absolute_error", output, target)
      .to(at::kDouble)
      .sub(target.to(at::kDouble))
      .abs()
      .sum();
}

}  // namespace

void add_losses(Registry& registry) {
  registry.add(LossEntry{.name = "cross_entropy",
                         .help = "Cross-entropy of class scores (softmax inside).",
                         .options = {{.name = "label_smoothing",
                                      .default_value = 0.0,
                                      .help = "Share of the target spread evenly over all classes.",
                                      .min = 0,
                                      .max = 1}},
                         .make = make_cross_entropy});
  registry.add(LossEntry{.name = "mse",
                         .help = "Squared difference of output and real target.",
                         .options = {},
                         .make = make_mse});
}

void add_metrics(Registry& registry) {
  registry.add(MetricEntry{.name = "accuracy",
                           .help = "Share of samples whose class has the highest score.",
                           .higher_is_better = true,
                           .compute = accuracy});
  registry.add(MetricEntry{.name = "mean_absolute_error",
                           .help = "Mean absolute difference of output and real target.",
                           .higher_is_better = false,
                           .compute = absolute_error});
}

}  // namespace trireme
