// SPDX-License-Identifier: Apache-2.0
// One rank's copy of the model, sorted into what is trained, what is fixed and what the model
// counts by itself.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "optim/optimizer.hpp"
#include "parallel/flat_parameters.hpp"
#include "train/task.hpp"

namespace trireme {

class Model;
struct ForwardContext;

struct Replica {
  std::shared_ptr<Model> model;
  std::vector<NamedTensor> trained;  // registration order; a tied tensor once, under its first name
  std::vector<NamedTensor> frozen;   // requires_grad false, by the model, model.freeze or a group
  std::vector<NamedTensor> buffers;  // BatchNorm statistics and the like
  std::vector<ParameterGroup> groups;  // of optimizer.groups, then the rest
  std::vector<int> group_of;           // [trained parameter]

  std::int64_t num_trained() const;                    // numbers in trained
  std::vector<PlanParameter> plan_parameters() const;  // of trained
};

// Builds the model of config.model.name with its initial weights from run.seed, in its precision
// and memory format, moves it to the device (initial weights do not depend on it), and sorts its
// parameters. Not collective. ConfigError for a pattern of a group or of model.freeze that matches
// nothing. Note [The default generator]: torch's initialisers draw from the one default generator
// of the process; building is serialised and seeded, so that ranks as threads get what ranks as
// processes get. Nothing draws from it later.
Replica make_replica(const Config& config, const ModelEntry& entry, const DatasetSpec& data,
                     at::Device device = at::kCPU);

// Collective over ranks that communicate in host memory. Lets the model see its first training
// samples and then calls load, which may replace its values (rank 0), proves that all ranks have
// the same parameters by name, shape, type and order (CommError names the first difference), and
// gives all ranks rank 0's values.
void start_equal(Replica& replica, const Dataset& train, const InputFormat& format,
                 Communicator& communicator, const std::function<void()>& load = {});

// Evaluates one sample, without a trace: ConfigError where model, loss, metric and data do not fit
// together.
void try_forward(Replica& replica, const Task& task, const InputFormat& format,
                 const Dataset& train);

// Connects every Dropout of the model with the context.
void bind_dropout(Model& model, const ForwardContext& context);

// ConfigError where parallel.sync_batch_norm would have no effect, or not on every layer: no
// BatchNorm, or one of torch's.
void require_batch_norm(const Model& model);
// Binds every BatchNorm of the model to these ranks.
void bind_batch_norm(Model& model, Communicator& ranks);
// The buffers that ranks change differently: all but those of bound BatchNorms.
std::vector<at::Tensor> buffers_to_average(const Replica& replica);

}  // namespace trireme
