// SPDX-License-Identifier: Apache-2.0
#include "app/declared.hpp"

#include <algorithm>

namespace trireme {
namespace {

template <class Entry>
const Entry& entry_named(const std::vector<Entry>& entries, const std::string& name) {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.name == name; });
  TRIREME_ASSERT(found != entries.end(),
                 "'" + name + "' was checked when the configuration was read");
  return *found;
}

}  // namespace

DeclaredOptions declared_options(const Registry& registry) {
  DeclaredOptions declared;
  for (const ModelEntry& entry : registry.models()) {
    declared.models[entry.name] = entry.options;
    declared.help["model." + entry.name] = entry.help;
  }
  for (const DatasetEntry& entry : registry.datasets()) {
    declared.datasets[entry.name] = entry.options;
    declared.help["data." + entry.name] = entry.help;
  }
  for (const LossEntry& entry : registry.losses()) {
    declared.losses[entry.name] = entry.options;
    declared.help["loss." + entry.name] = entry.help;
  }
  for (const MetricEntry& entry : registry.metrics()) {
    declared.metrics.push_back(entry.name);
    declared.help["metric." + entry.name] = entry.help;
  }
  return declared;
}

const ModelEntry& model_entry(const Registry& registry, const std::string& name) {
  return entry_named(registry.models(), name);
}

const DatasetEntry& dataset_entry(const Registry& registry, const std::string& name) {
  return entry_named(registry.datasets(), name);
}

Task make_task(const Registry& registry, const Config& config) {
  const MetricEntry& metric = entry_named(registry.metrics(), config.metric.name);
  return {.loss = entry_named(registry.losses(), config.loss.name).make(config.loss.options),
          .metric = metric.compute,
          .metric_higher_is_better = metric.higher_is_better,
          .mean_loss = config.loss.reduction == "mean"};
}

}  // namespace trireme
