// SPDX-License-Identifier: Apache-2.0
#include "train/evaluation.hpp"

#include <algorithm>
#include <array>
#include <chrono>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/reflection_pad2d.h>

#include "base/activity.hpp"
#include "base/inject.hpp"
#include "comm/agree.hpp"
#include "trireme/model.hpp"

namespace trireme {
namespace {

constexpr std::int64_t kLargestBatch = 500;  // where train.eval_batch is not set

at::Tensor mirrored_mean(Model& model, const at::Tensor& input) {
  return (model.forward(input) + model.forward(input.flip(-1))) / 2;
}

}  // namespace

at::Tensor forward_views(Model& model, const at::Tensor& input, const std::string& views) {
  if (views == "single") return model.forward(input);
  const at::Tensor centre = mirrored_mean(model, input);
  if (views == "mirror") return centre;
  const std::int64_t height = input.size(2), width = input.size(3);
  const at::Tensor padded = at::reflection_pad2d(input, {1, 1, 1, 1});
  const auto crop = [&](std::int64_t offset) {
    return padded.narrow(2, offset, height)
        .narrow(3, offset, width)
        .contiguous(input.suggest_memory_format());
  };
  return 0.5 * centre + 0.25 * mirrored_mean(model, crop(0)) + 0.25 * mirrored_mean(model, crop(2));
}

EvaluationOptions evaluation_options(const Config& config, int world_size) {
  const std::int64_t share = (config.train.global_batch + world_size - 1) / world_size;
  return {.batch = config.train.eval_batch > 0 ? config.train.eval_batch
                                               : std::min(share, kLargestBatch),
          .views = config.train.eval_views,
          .workers = config.data.workers,
          .prefetch = config.data.prefetch};
}

EvaluationResult evaluate(Replica& replica, const Task& task, const InputFormat& format,
                          const std::shared_ptr<const Dataset>& dataset,
                          const EvaluationOptions& options, Communicator& communicator) {
  const auto start = std::chrono::steady_clock::now();
  const at::NoGradGuard no_grad;
  const Sampler sampler({.num_samples = dataset->size(),
                         .global_batch = options.batch * communicator.size(),
                         .shuffle = false,
                         .rank = communicator.rank(),
                         .world_size = communicator.size()});
  Loader loader(dataset, sampler,
                {.augment = without_augmentation(format.augment),
                 .workers = options.workers,
                 .prefetch = options.prefetch},
                0, sampler.steps_per_epoch());
  std::array<double, 3> sums{};  // loss, metric, samples
  EvaluationResult result;
  replica.model->eval();
  for (std::int64_t step = 0; step < sampler.steps_per_epoch() && !result.stopped; ++step) {
    fault_point(FaultPoint::kEvalBatch);
    for (std::size_t m = 0; m < sampler.micro_batches(step).size(); ++m) {
      enter_phase(Phase::kEvaluation);  // it comes on with each batch
      const TensorBatch batch = to_tensors(loader.next(), format);
      const at::Tensor output = forward_views(*replica.model, batch.input, options.views);
      sums[0] += task.loss(output, batch.target).item<double>();
      sums[1] += task.metric(output, batch.target).item<double>();
      sums[2] += static_cast<double>(batch.samples);
    }
    if (options.progress) {
      options.progress(std::min(dataset->size(), (step + 1) * options.batch * communicator.size()));
    }
    if (options.stop_requested) result.stopped = any_rank(communicator, options.stop_requested());
  }
  replica.model->train();
  if (result.stopped) return result;
  communicator.all_reduce({sums.data(), sums.size(), DType::kF64}).wait();
  const double terms = sums[2] * static_cast<double>(format.spec.targets_per_sample());
  result.loss = sums[0] / terms;
  result.metric = sums[1] / terms;
  result.samples = static_cast<std::int64_t>(sums[2]);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

EvalEvent to_event(const EvaluationResult& result, const std::string& split, std::int64_t step,
                   double epoch) {
  return {.step = step,
          .epoch = epoch,
          .split = split,
          .loss = result.loss,
          .metric = result.metric,
          .samples = result.samples,
          .seconds = result.seconds};
}

}  // namespace trireme
