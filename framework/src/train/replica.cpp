// SPDX-License-Identifier: Apache-2.0
#include "train/replica.hpp"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <set>
#include <sstream>

#include <torch/nn/init.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/utils.h>

#include "comm/agree.hpp"
#include "comm/shared_error.hpp"
#include "data/loader.hpp"
#include "optim/patterns.hpp"
#include "trireme/model.hpp"

namespace trireme {
namespace {

std::vector<NamedTensor> unique_tensors(
    const torch::OrderedDict<std::string, torch::Tensor>& dict) {
  std::vector<NamedTensor> tensors;
  std::set<const void*> seen;
  for (const auto& item : dict) {
    if (item.value().defined() && seen.insert(item.value().unsafeGetTensorImpl()).second) {
      tensors.push_back({item.key(), item.value()});
    }
  }
  return tensors;
}

// Weights of two and more dimensions get the named distribution; biases and norms keep torch's
// start.
void initialise(Model& model, const ModelConfig& config) {
  if (config.init == "default") return;
  for (auto& parameter : model.parameters()) {
    if (parameter.dim() < 2 || !parameter.requires_grad()) continue;
    if (config.init == "xavier_uniform") torch::nn::init::xavier_uniform_(parameter);
    if (config.init == "kaiming_normal")
      torch::nn::init::kaiming_normal_(parameter, 0, torch::kFanOut, torch::kReLU);
    if (config.init == "normal") torch::nn::init::normal_(parameter, 0, config.init_std);
  }
}

std::shared_ptr<Model> build_seeded(const Config& config, const ModelEntry& entry,
                                    const DatasetSpec& data) {
  static std::mutex generator;  // see Note [The default generator]
  const std::lock_guard lock(generator);
  torch::manual_seed(static_cast<std::uint64_t>(config.run.seed));
  std::shared_ptr<Model> model = entry.make(config.model.options, data);
  TRIREME_ASSERT(model != nullptr, "model '" + entry.name + "' made nothing");
  initialise(*model, config.model);
  return model;
}

// As Python's Module.to(dtype): whole numbers, such as num_batches_tracked, stay whole. The C++
// module's converts them, too.
void use_precision(Model& model, at::ScalarType type) {
  for (const auto& tensors : {model.parameters(), model.buffers()}) {
    for (const at::Tensor& tensor : tensors) {
      if (tensor.is_floating_point()) tensor.set_data(tensor.data().to(type));
    }
  }
}

// As PyTorch's Module.to(memory_format=channels_last): four-dimensional parameters only.
void use_channels_last(Model& model) {
  for (auto& parameter : model.parameters()) {
    if (parameter.dim() == 4)
      parameter.set_data(parameter.data().contiguous(at::MemoryFormat::ChannelsLast));
  }
}

void sort_parameters(Replica& replica, const Config& config) {
  const std::vector<NamedTensor> all = unique_tensors(replica.model->named_parameters());
  std::vector<std::string> names;
  std::vector<std::vector<std::int64_t>> shapes;
  for (const NamedTensor& parameter : all) {
    names.push_back(parameter.name);
    shapes.push_back(parameter.tensor.sizes().vec());
  }
  const std::vector<bool> frozen = matched_by(config.model.freeze, names, "model.freeze");
  ResolvedGroups resolved = resolve_groups(config.optimizer, names, shapes, frozen);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const int group = resolved.group_of[i];
    if (!all[i].tensor.requires_grad() || frozen[i] ||
        resolved.groups[static_cast<std::size_t>(group)].frozen) {
      all[i].tensor.set_requires_grad(false);
      replica.frozen.push_back(all[i]);
    } else {
      replica.trained.push_back(all[i]);
      replica.group_of.push_back(group);
    }
  }
  replica.groups = std::move(resolved.groups);
  replica.buffers = unique_tensors(replica.model->named_buffers());
  for (const NamedTensor& buffer : replica.buffers) {
    if (can_travel(buffer.tensor)) continue;
    throw ConfigError("buffer '" + buffer.name + "' of the model has type " +
                      c10::toString(buffer.tensor.scalar_type()) +
                      "; expected float, double, int64, uint8 or bool");
  }
}

std::vector<std::string> describe(const Replica& replica) {
  std::vector<std::string> lines;
  const auto add = [&](const char* kind, const std::vector<NamedTensor>& tensors) {
    for (const NamedTensor& t : tensors) {
      std::ostringstream line;
      line << kind << " '" << t.name << "' " << c10::toString(t.tensor.scalar_type()) << " "
           << t.tensor.sizes();
      lines.push_back(line.str());
    }
  };
  add("parameter", replica.trained);
  add("frozen parameter", replica.frozen);
  add("buffer", replica.buffers);
  return lines;
}

void show_first_samples(Model& model, const Dataset& train, const InputFormat& format) {
  const std::int64_t wanted = std::min(model.num_init_samples(), train.size());
  if (wanted <= 0) return;
  std::vector<std::int64_t> ids(static_cast<std::size_t>(wanted));
  std::iota(ids.begin(), ids.end(), 0);
  const torch::NoGradGuard no_grad;
  model.init_from_samples(to_tensors(read_batch(train, ids, format.augment), format).input);
}

}  // namespace

std::int64_t Replica::num_trained() const {
  return std::accumulate(trained.begin(), trained.end(), std::int64_t{0},
                         [](std::int64_t n, const NamedTensor& p) { return n + p.tensor.numel(); });
}

std::vector<PlanParameter> Replica::plan_parameters() const {
  std::vector<std::unique_ptr<Optimizer>> rules;
  for (const ParameterGroup& group : groups) rules.push_back(make_optimizer(group.settings));
  std::vector<PlanParameter> parameters;
  for (std::size_t i = 0; i < trained.size(); ++i) {
    const Optimizer& rule = *rules[static_cast<std::size_t>(group_of[i])];
    const at::Tensor& tensor = trained[i].tensor;
    parameters.push_back({.name = trained[i].name,
                          .numel = tensor.numel(),
                          .dtype = dtype_of(tensor),
                          .group = group_of[i],
                          .whole = rule.needs_whole_parameters(),
                          .cost = rule.cost(tensor.sizes().vec())});
  }
  return parameters;
}

Replica make_replica(const Config& config, const ModelEntry& entry, const DatasetSpec& data,
                     at::Device device) {
  Replica replica;
  replica.model = build_seeded(config, entry, data);
  use_precision(*replica.model, precision_of(config.train.precision));
  if (config.model.channels_last) use_channels_last(*replica.model);
  replica.model->to(device);
  sort_parameters(replica, config);
  if (replica.trained.empty()) {
    throw ConfigError("model '" + config.model.name +
                      "' has no parameter left to train: check model.freeze and optimizer.groups");
  }
  return replica;
}

void start_equal(Replica& replica, const Dataset& train, const InputFormat& format,
                 Communicator& communicator, const std::function<void()>& load) {
  collectively(communicator, [&] {
    if (communicator.rank() != 0) return;
    show_first_samples(*replica.model, train, format);
    if (load) load();
  });
  require_equal(communicator, "the model's parameters", describe(replica));
  for (const auto* tensors : {&replica.trained, &replica.frozen, &replica.buffers}) {
    for (const NamedTensor& tensor : *tensors) broadcast_values(tensor.tensor, communicator);
  }
}

void try_forward(Replica& replica, const Task& task, const InputFormat& format,
                 const Dataset& train) {
  const torch::NoGradGuard no_grad;
  const std::int64_t first = 0;
  replica.model->eval();
  try {
    const TensorBatch batch = to_tensors(read_batch(train, {&first, 1}, format.augment), format);
    const at::Tensor output = replica.model->forward(batch.input);
    task.loss(output, batch.target);
    task.metric(output, batch.target);
  } catch (const c10::Error& error) {
    throw ConfigError(
        std::string("the model does not take this data: ") + error.what_without_backtrace() +
        "; check model.* against the shape of the samples, and loss.name and metric.name");
  }
  replica.model->train();
}

void bind_dropout(Model& model, const ForwardContext& context) {
  std::uint64_t layer = 0;
  for (const auto& module : model.modules()) {
    if (auto* dropout = dynamic_cast<Dropout*>(module.get())) dropout->bind(&context, layer++);
  }
}

void require_batch_norm(const Model& model) {
  bool found = false;
  for (const auto& layer : model.named_modules()) {
    const torch::nn::Module* module = layer.value().get();
    found = found || dynamic_cast<const BatchNorm*>(module) != nullptr;
    if (dynamic_cast<const torch::nn::BatchNorm1dImpl*>(module) == nullptr &&
        dynamic_cast<const torch::nn::BatchNorm2dImpl*>(module) == nullptr &&
        dynamic_cast<const torch::nn::BatchNorm3dImpl*>(module) == nullptr) {
      continue;
    }
    throw ConfigError("parallel.sync_batch_norm: layer '" + layer.key() +
                      "' is torch's BatchNorm, which sees its own rank only; use "
                      "trireme::BatchNorm in the model");
  }
  if (found) return;
  throw ConfigError(
      "parallel.sync_batch_norm: the model has no trireme::BatchNorm, so that this has no effect; "
      "delete it");
}

void bind_batch_norm(Model& model, Communicator& ranks) {
  for (const auto& layer : model.named_modules()) {
    if (auto* norm = dynamic_cast<BatchNorm*>(layer.value().get())) norm->bind(ranks, layer.key());
  }
}

std::vector<at::Tensor> buffers_to_average(const Replica& replica) {
  std::set<const void*> equal;
  for (const auto& module : replica.model->modules()) {
    const auto* norm = dynamic_cast<const BatchNorm*>(module.get());
    if (norm == nullptr || !norm->is_bound()) continue;
    for (const at::Tensor& buffer : {norm->running_mean, norm->running_var})
      equal.insert(buffer.unsafeGetTensorImpl());
  }
  std::vector<at::Tensor> buffers;
  for (const NamedTensor& buffer : replica.buffers) {
    if (!equal.contains(buffer.tensor.unsafeGetTensorImpl())) buffers.push_back(buffer.tensor);
  }
  return buffers;
}

}  // namespace trireme
