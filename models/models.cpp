// SPDX-License-Identifier: Apache-2.0
#include "models.hpp"

#include "entries.hpp"
#include "trireme/error.hpp"

namespace trireme {

void add_models(Registry& registry) {
  registry.add(mlp_entry());
  registry.add(convnet_entry());
  registry.add(resnet18_entry());
  registry.add(resnet34_entry());
  registry.add(resnet50_entry());
  registry.add(cifar_net_entry());
  registry.add(gpt_entry());
}

OptionSpec dropout_option() {
  return {.name = "dropout",
          .default_value = 0.0,
          .help = "Probability that an activation is dropped in training.",
          .min = 0,
          .max = 0.95};
}

std::int64_t image_channels(const DatasetSpec& data, const char* model, std::int64_t smallest) {
  const auto& shape = data.input_shape;
  if (shape.size() != 3 || data.input_dtype == DType::kI64 || shape[1] < smallest ||
      shape[2] < smallest) {
    throw ConfigError("model.name " + std::string(model) + " takes images of at least " +
                      std::to_string(smallest) + "x" + std::to_string(smallest) +
                      " pixels, which data.name does not give; choose another model or data set");
  }
  return shape[0];
}

std::int64_t num_outputs(const DatasetSpec& data, const char* model) {
  if (data.num_classes == 0) return data.targets_per_sample();
  if (data.targets_per_sample() != 1) {
    throw ConfigError("model.name " + std::string(model) +
                      " gives one prediction a sample, but data.name has " +
                      std::to_string(data.targets_per_sample()) +
                      " targets a sample; choose a sequence model such as gpt");
  }
  return data.num_classes;
}

}  // namespace trireme
