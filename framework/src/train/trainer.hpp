// SPDX-License-Identifier: Apache-2.0
// The training loop.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/evaluation.hpp"
#include "train/saver.hpp"
#include "train/step.hpp"
#include "train/training_state.hpp"

namespace trireme {

struct TrainerData {
  std::shared_ptr<const Dataset> train;       // without what validation holds out
  std::shared_ptr<const Dataset> validation;  // null: none is held out
  std::shared_ptr<const Dataset> test;        // null: there is none
};

// All references must outlive the trainer.
struct TrainerParts {
  const Config& config;
  Communicator& gradients;  // nobody else uses it
  Communicator& control;    // the same ranks
  Replica& replica;
  const Task& task;
  InputFormat format;
  TrainerData data;
  Observer& observer;                    // on ranks other than 0 one that does nothing
  std::filesystem::path checkpoints;     // the folder; empty: none are written
  std::string environment;               // JSON object text for checkpoints
  std::string host;                      // of this rank, for the report of ranks
  std::function<bool()> stop_requested;  // asked each step and evaluation batch on every rank
  // Asked each step on every rank, and takes the request back. Empty: nobody asks for checkpoints.
  std::function<bool()> take_save_request = {};
};

// How long a run is. ConfigError where it has no step.
struct RunLength {
  std::int64_t steps_per_epoch = 0, total_steps = 0;
};
RunLength run_length(const Config& config, std::int64_t train_samples);

// The sampler options of training for one rank.
SamplerOptions sampler_options(const Config& config, std::int64_t train_samples,
                               const Communicator& communicator);

class Trainer {
 public:
  explicit Trainer(TrainerParts parts);  // collective

  // Collective; before restore() and run(), where checkpoints are to be written. Takes the memory
  // for it and looks for room on the disk. SharedError where there is not enough.
  void prepare_to_save();
  // Collective; before run(). Goes on from this checkpoint instead of step 0. SharedError where it
  // is none, or beyond the run's length.
  StateDocument restore(const std::filesystem::path& checkpoint);
  // Collective. Trains to the end, an early stop, or a request to stop; evaluates and saves on the
  // way. A request for a checkpoint is followed after the step, or, where nodes are apart then,
  // when they are together next; it changes nothing in what is learned. An evaluation is on the
  // validation split, and at the end on the test split, too; without a validation split always on
  // the test split. SharedError for what all ranks decided together (not finite, a checkpoint that
  // cannot be written); anything else concerns this rank alone, and the others wait for it: the
  // caller has to end the job.
  EndEvent run();

  const TrainingState& state() const { return state_; }
  bool done() const { return state_.step >= length_.total_steps || out_of_patience(); }

 private:
  EndEvent train();
  void take_up_checkpoints(const std::filesystem::path& checkpoint);
  enum class Evaluation { kNotDue, kDone, kCutOff };
  Evaluation evaluate_if_due();  // kCutOff: on a request to stop; then it is pending
  bool evaluate();               // false: cut off
  // Whether one fell due since the last one.
  bool evaluation_due() const;
  std::optional<EvalEvent> evaluate_on(const std::string& split,
                                       const std::shared_ptr<const Dataset>& dataset);
  void judge(EvalEvent& event);
  StepRequests requests() const;
  void save_if_due(bool must);
  void save();
  // Collective. Waits until what is being written is committed.
  void settle(const std::string& words);
  void finish_saving();
  void report_saved();
  StateDocument document() const;
  std::int64_t most_checkpoints() const;
  bool out_of_patience() const;
  void report_ranks_if_due(bool must);
  double epoch() const {
    return static_cast<double>(state_.step) / static_cast<double>(length_.steps_per_epoch);
  }

  TrainerParts parts_;
  Sampler sampler_;
  RunLength length_;
  TrainingStep step_;
  std::unique_ptr<Saver> saver_;  // null: no checkpoints are written
  TrainingState state_;
  bool new_best_ = false;        // the last evaluation was the best so far
  bool save_requested_ = false;  // agreed by all ranks, and not followed yet
  std::int64_t saved_step_ = -1;
  std::int64_t reported_step_ = 0;  // up to which the ranks' times have been told
};

}  // namespace trireme
