// SPDX-License-Identifier: Apache-2.0
// From a configuration to a trainer: the one place that knows concrete types and puts the parts
// together.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "app/bucket_size.hpp"
#include "app/rank_device.hpp"
#include "config/config.hpp"
#include "train/initial_weights.hpp"
#include "train/trainer.hpp"
#include "trireme/registry.hpp"

namespace trireme {

struct TrainingOptions {
  Observer* observer = nullptr;       // rank 0's; null: nobody looks on
  std::filesystem::path checkpoints;  // empty: none are written
  std::string environment = "{}";     // JSON object text for checkpoints
  std::string host = {};              // of this rank
  bool from_step_0 = true;            // model.init_from is read; else a checkpoint follows
  std::function<bool()> stop_requested = [] { return false; };
  std::function<bool()> take_save_request = {};  // as TrainerParts'
};

// All members are collective over world. Setting up throws SharedError: every rank gets the same
// words.
class Session {
 public:
  // Opens the data sets and builds the model, on the device of `device`. world: in host memory.
  // The referenced objects must outlive the session. warn: told on rank 0 what the data set has to
  // say.
  Session(Config config, const Registry& registry, Communicator& world,
          const std::function<void(const std::string&)>& warn = {}, RankDevice device = {});

  // Tries the model, loss and metric on a sample: what does not fit together is found before
  // training.
  void require_fit();

  // Whether model.init_from fits, without loading it; what rank 0 has found.
  std::optional<InitialWeights> check_initial_weights();

  // Equal parameters on all ranks, flat buffers, hooks; on GPUs a group of NCCL's for them. Once a
  // session. Sets parallel.bucket_mb where the configuration leaves the choice.
  Trainer& make_trainer(const TrainingOptions& options);

  // Loads a checkpoint's parameters and evaluates. split: "test" or "validation".
  EvalEvent evaluate_checkpoint(const std::filesystem::path& checkpoint, const std::string& split);

  const Config& config() const { return config_; }
  // How make_trainer() came to the size of buckets; nothing where gradients do not travel.
  const std::optional<BucketSize>& buckets() const { return buckets_; }
  // What make_trainer() has loaded from model.init_from, on rank 0; nothing where that is not set.
  const std::optional<InitialWeights>& initial_weights() const { return initial_weights_; }
  // An object of survey(), with the link that make_trainer() measured, and what it has loaded.
  std::string environment(const std::string& json) const;
  // The nodes that gradients know of; after make_trainer().
  int num_nodes() const { return gradients().placement().num_nodes; }
  // A key that is set and acts between nodes only; empty: none.
  std::string key_between_nodes() const;
  const Replica& replica() const { return replica_; }
  const TrainerData& data() const { return data_; }

 private:
  // A group of all ranks whose data lies where this session computes.
  std::unique_ptr<Communicator> group_on_device() const;
  Communicator& gradients() const { return gpus_ != nullptr ? *gpus_ : world_; }
  void choose_buckets();
  std::optional<InitialWeights> find_initial_weights(
      InitialWeights (*take)(const std::filesystem::path&, Fit, const Replica&)) const;
  void open_data(const Registry& registry, const std::function<void(const std::string&)>& warn);

  Config config_;
  Communicator& world_;
  RankDevice device_;
  std::unique_ptr<Communicator> control_, node_;
  std::unique_ptr<Communicator> statistics_;  // of BatchNorms over ranks; null: each sees its own
  std::unique_ptr<Communicator> gpus_;  // null: gradients lie in host memory, and world_ sums them
  Task task_;
  InputFormat format_;
  TrainerData data_;
  Replica replica_;
  std::optional<BucketSize> buckets_;
  std::optional<InitialWeights> initial_weights_;
  Observer nobody_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace trireme
