// SPDX-License-Identifier: Apache-2.0
// The whole trainer, with all its commands, plus an own model, data set, loss and metric.
#include <torch/types.h>

#include "own_dataset.hpp"
#include "own_model.hpp"
#include "trireme/app.hpp"
#include "trireme/models.hpp"

using torch::Tensor;

// Quadratic near the target, linear from `delta` on (Huber 1964), summed over the micro-batch.
static trireme::LossFunction huber(double delta) {
  return [delta](const Tensor& output, const Tensor& target) {
    const Tensor error = (output - target).abs();
    const Tensor near = error.clamp_max(delta);
    return (near * (error - 0.5 * near)).sum();
  };
}

static Tensor absolute_error(const Tensor& output, const Tensor& target) {
  return (output - target).abs().sum();
}

int main(int argc, char** argv) {
  trireme::Registry registry = trireme::builtin();
  trireme::add_models(registry);
  registry.add(trireme::ModelEntry{
      .name = "own_model",
      .help = "One hidden layer of tanh units.",
      .options = {{.name = "width", .default_value = std::int64_t{32}, .help = "Units.", .min = 1}},
      .make = [](const trireme::Options& options, const trireme::DatasetSpec& data) {
        return std::make_shared<OwnModel>(data.input_shape[0], options.get<std::int64_t>("width"));
      }});
  registry.add(trireme::DatasetEntry{
      .name = "own_points",
      .help = "Lines of two real features and a real target.",
      .options = {},
      .make = [](const trireme::Options&, const trireme::DatasetContext& context) {
        return std::make_shared<OwnDataset>(context.path, context.split);
      }});
  registry.add(trireme::LossEntry{
      .name = "own_huber",
      .help = "Huber's loss.",
      .options =
          {{.name = "delta", .default_value = 1.0, .help = "Where it turns linear.", .min = 1e-6}},
      .make = [](const trireme::Options& options) { return huber(options.get<double>("delta")); }});
  registry.add(trireme::MetricEntry{.name = "own_absolute_error",
                                    .help = "Mean absolute error.",
                                    .higher_is_better = false,
                                    .compute = absolute_error});
  return trireme::run(argc, argv, registry);
}
