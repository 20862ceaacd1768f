// SPDX-License-Identifier: Apache-2.0
// The one list of what a configuration can name. `builtin()` (app.hpp) gives Trireme's own; add
// yours to it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/dataset.hpp"
#include "trireme/options.hpp"

namespace trireme {

class Model;  // model.hpp

struct ModelEntry {
  std::string name;                 // model.name
  std::string help;                 // one sentence
  std::vector<OptionSpec> options;  // model.*
  std::function<std::shared_ptr<Model>(const Options&, const DatasetSpec&)> make;
};

// `make` is called for each split; for kTest it may return nullptr: there is no test set.
struct DatasetEntry {
  std::string name;  // data.name
  std::string help;
  std::vector<OptionSpec> options;  // data.*
  std::function<std::shared_ptr<const Dataset>(const Options&, const DatasetContext&)> make;
};

// A loss maps (output, target) to the *sum* of its terms over the micro-batch, a scalar; the
// trainer divides by the global number of terms where loss.reduction is mean.
using LossFunction = std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target)>;
struct LossEntry {
  std::string name;  // loss.name
  std::string help;
  std::vector<OptionSpec> options;  // loss.*
  std::function<LossFunction(const Options&)> make;
};

// A metric maps (output, target) to the sum of its values over the micro-batch, a scalar; shown is
// the mean over terms.
using MetricFunction =
    std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target)>;
struct MetricEntry {
  std::string name;  // metric.name
  std::string help;
  bool higher_is_better = true;
  MetricFunction compute;
};

// Adding a name twice is an InternalError.
class Registry {
 public:
  void add(ModelEntry entry);
  void add(DatasetEntry entry);
  void add(LossEntry entry);
  void add(MetricEntry entry);

  const std::vector<ModelEntry>& models() const { return models_; }
  const std::vector<DatasetEntry>& datasets() const { return datasets_; }
  const std::vector<LossEntry>& losses() const { return losses_; }
  const std::vector<MetricEntry>& metrics() const { return metrics_; }

 private:
  std::vector<ModelEntry> models_;
  std::vector<DatasetEntry> datasets_;
  std::vector<LossEntry> losses_;
  std::vector<MetricEntry> metrics_;
};

}  // namespace trireme
