// SPDX-License-Identifier: Apache-2.0
// The shipped models: mlp, convnet, resnet18, resnet34, resnet50, cifar_net, gpt. Installed as
// trireme/models.hpp.
#pragma once

#include "trireme/registry.hpp"

namespace trireme {

// The explicit list (models.cpp). Making a model for a data set that it cannot take is a
// ConfigError.
void add_models(Registry& registry);

}  // namespace trireme
