// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace trireme::test {

std::shared_ptr<Model> make_model(const std::string& name, const DatasetSpec& data,
                                  const std::map<std::string, OptionValue>& options) {
  Registry registry;
  add_models(registry);
  const auto entry = std::find_if(registry.models().begin(), registry.models().end(),
                                  [&](const ModelEntry& e) { return e.name == name; });
  TRIREME_ASSERT(entry != registry.models().end(), "no model " + name);
  Options values = default_options(entry->options);
  for (const auto& [option, value] : options) values.set(option, value);
  return entry->make(values, data);
}

DatasetSpec images(std::int64_t channels, std::int64_t size, std::int64_t num_classes) {
  return {.input_shape = {channels, size, size},
          .input_dtype = DType::kU8,
          .target_shape = {},
          .target_dtype = DType::kI64,
          .num_classes = num_classes};
}

DatasetSpec tokens(std::int64_t length, std::int64_t vocabulary) {
  return {.input_shape = {length},
          .input_dtype = DType::kI64,
          .target_shape = {length},
          .target_dtype = DType::kI64,
          .num_classes = vocabulary};
}

std::int64_t num_trained(const Model& model) {
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : model.parameters()) {
    if (parameter.requires_grad()) count += parameter.numel();
  }
  return count;
}

}  // namespace trireme::test
