// SPDX-License-Identifier: Apache-2.0
// The shipped models: mlp, convnet, resnet18, resnet34, resnet50, cifar_net, gpt. Installed as trireme/models.hpp.
#pragma once

#include "trireme/registry.hpp"

namespace trireme {

// The explicit list (models.cpp).
void add_models(Registry& registry);

}  // namespace trireme
