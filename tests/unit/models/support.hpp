// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "models.hpp"
#include "trireme/model.hpp"

namespace trireme::test {

// A registered model with these options in place of the defaults.
std::shared_ptr<Model> make_model(const std::string& name, const DatasetSpec& data,
                                  const std::map<std::string, OptionValue>& options = {});

DatasetSpec images(std::int64_t channels, std::int64_t size, std::int64_t num_classes);
DatasetSpec tokens(std::int64_t length, std::int64_t vocabulary);

// Elements of the parameters that take a gradient.
std::int64_t num_trained(const Model& model);

}  // namespace trireme::test
