// SPDX-License-Identifier: Apache-2.0
// From a configuration to a trainer: the one place that knows concrete types and puts the parts
// together.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "config/config.hpp"
#include "parallel/link.hpp"
#include "train/trainer.hpp"
#include "trireme/registry.hpp"

namespace trireme {

struct TrainingOptions {
  Observer* observer = nullptr;       // rank 0's; null: nobody looks on
  std::filesystem::path checkpoints;  // empty: none are written
  std::string environment = "{}";     // JSON object text for checkpoints
  std::function<bool()> stop_requested = [] { return false; };
};

// All members are collective over world. Setting up throws SharedError: every rank gets the same
// words.
class Session {
 public:
  // Opens the data sets and builds the model. The referenced objects must outlive the session.
  // warn: told on rank 0 what the data set has to say.
  Session(Config config, const Registry& registry, Communicator& world,
          const std::function<void(const std::string&)>& warn = {});

  // Tries the model, loss and metric on a sample: what does not fit together is found before
  // training.
  void require_fit();

  // Equal parameters on all ranks, flat buffers, hooks. Once a session. Sets parallel.bucket_mb
  // where the configuration leaves the choice.
  Trainer& make_trainer(const TrainingOptions& options);

  // Loads a checkpoint's parameters and evaluates. split: "test" or "validation".
  EvalEvent evaluate_checkpoint(const std::filesystem::path& checkpoint, const std::string& split);

  const Config& config() const { return config_; }
  // What make_trainer() measured; nothing where it did not.
  const std::optional<Link>& link() const { return link_; }
  const Replica& replica() const { return replica_; }
  const TrainerData& data() const { return data_; }

 private:
  void choose_bucket_size();
  void open_data(const Registry& registry, const std::function<void(const std::string&)>& warn);

  Config config_;
  Communicator& world_;
  std::unique_ptr<Communicator> control_, node_;
  std::unique_ptr<Communicator> statistics_;  // of BatchNorms over ranks; null: each sees its own
  Task task_;
  InputFormat format_;
  TrainerData data_;
  Replica replica_;
  std::optional<Link> link_;
  Observer nobody_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace trireme
