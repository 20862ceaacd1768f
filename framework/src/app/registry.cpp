// SPDX-License-Identifier: Apache-2.0
#include "trireme/registry.hpp"

#include <algorithm>

#include "data/datasets.hpp"
#include "train/losses.hpp"
#include "trireme/app.hpp"

namespace trireme {
namespace {

template <class Entry>
void add_once(std::vector<Entry>& entries, Entry entry, const char* kind) {
  const bool taken = std::any_of(entries.begin(), entries.end(),
                                 [&](const Entry& e) { return e.name == entry.name; });
  TRIREME_ASSERT(!taken, std::string("the ") + kind + " '" + entry.name + "' is registered twice");
  entries.push_back(std::move(entry));
}

}  // namespace

void Registry::add(ModelEntry entry) { add_once(models_, std::move(entry), "model"); }
void Registry::add(DatasetEntry entry) { add_once(datasets_, std::move(entry), "data set"); }
void Registry::add(LossEntry entry) { add_once(losses_, std::move(entry), "loss"); }
void Registry::add(MetricEntry entry) { add_once(metrics_, std::move(entry), "metric"); }

Registry builtin() {
  Registry registry;
  for (DatasetKind& kind : dataset_kinds()) {
    registry.add(DatasetEntry{std::move(kind.name), std::move(kind.help), std::move(kind.options),
                              std::move(kind.make)});
  }
  add_losses(registry);
  add_metrics(registry);
  return registry;
}

}  // namespace trireme
