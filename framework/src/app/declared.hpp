// SPDX-License-Identifier: Apache-2.0
// The registry as the configuration reader sees it, and look-ups that cannot fail once a
// configuration was read.
#pragma once

#include "config/read.hpp"
#include "train/task.hpp"
#include "trireme/registry.hpp"

namespace trireme {

DeclaredOptions declared_options(const Registry& registry);

const ModelEntry& model_entry(const Registry& registry, const std::string& name);
const DatasetEntry& dataset_entry(const Registry& registry, const std::string& name);
Task make_task(const Registry& registry, const Config& config);

}  // namespace trireme
