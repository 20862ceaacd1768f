// SPDX-License-Identifier: Apache-2.0
// Whole trainings inside a test, with ranks as threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "app/session.hpp"
#include "trireme/registry.hpp"

namespace trireme::test {

Registry all_parts();  // built-in data sets, losses, metrics and the shipped models

// YAML text to a configuration, strictly.
Config config_of(const std::string& yaml, const Registry& registry = all_parts());

struct TrainingRun {
  std::vector<double> losses, metrics, rates, norms;             // [step]
  std::vector<std::int64_t> sent_bytes, saturated, underflowed;  // [step], of communication
  std::vector<EvalEvent> evaluations;
  std::vector<CheckpointEvent> checkpoints;
  std::vector<at::Tensor> parameters, buffers;  // rank 0's, afterwards; row-major copies
  TrainingState state;
  EndEvent end;
};

struct TrainingSetup {
  int ranks = 1;
  int ranks_per_node = 0;                  // 0: all of them
  std::filesystem::path checkpoints = {};  // written where not empty
  std::filesystem::path restore = {};      // gone on from where not empty
  std::function<void(Session&, Communicator&)> before_run =
      nullptr;  // each rank, after make_trainer
  std::function<bool(int rank)> stop_requested = nullptr;
  std::function<bool(int rank)> take_save_request = nullptr;
};

// Trains as `trainer` would; throws what a rank throws.
TrainingRun train(const Config& config, const TrainingSetup& setup = {},
                  const Registry& registry = all_parts());

// Collective: the same on the ranks of `world`, whatever they are; setup.ranks is not used. What is
// returned is empty on ranks other than 0.
TrainingRun train_together(Communicator& world, const Config& config,
                           const TrainingSetup& setup = {}, const Registry& registry = all_parts());

// Largest absolute difference of two sequences of equal length.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b);

// Whether all tensors are equal bit for bit.
bool bitwise_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b);

}  // namespace trireme::test
