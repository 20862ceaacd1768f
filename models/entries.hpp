// SPDX-License-Identifier: Apache-2.0
// One function a model file, and what they share.
#pragma once

#include "trireme/model.hpp"
#include "trireme/registry.hpp"

namespace trireme {

ModelEntry mlp_entry();
ModelEntry convnet_entry();
ModelEntry resnet18_entry();
ModelEntry resnet34_entry();
ModelEntry resnet50_entry();
ModelEntry cifar_net_entry();
ModelEntry gpt_entry();

// "model.dropout", 0 unless configured.
OptionSpec dropout_option();

// Channels of the images; ConfigError that names `model` where the data set has none or they are
// smaller than `smallest` pixels in height or width.
std::int64_t image_channels(const DatasetSpec& data, const char* model, std::int64_t smallest);

// Scores a sample: one a class, or one a real target. ConfigError that names `model` where samples
// carry several classes.
std::int64_t num_outputs(const DatasetSpec& data, const char* model);

}  // namespace trireme
