// SPDX-License-Identifier: Apache-2.0
// One optimizer step: from micro-batches to new parameters on all ranks.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "config/config.hpp"
#include "data/loader.hpp"
#include "observe/observer.hpp"
#include "optim/schedule.hpp"
#include "parallel/buffer_average.hpp"
#include "parallel/gradient_sync.hpp"
#include "parallel/node_average.hpp"
#include "parallel/sharded_update.hpp"
#include "parallel/sync_period.hpp"
#include "train/replica.hpp"
#include "train/snapshot.hpp"

namespace trireme {

struct StepOutcome {
  StepEvent event;
  bool stop = false;          // some rank was asked to stop: agreed by all ranks
  bool save = false;          // the same for a checkpoint
  bool write_failed = false;  // some rank cannot write a checkpoint: agreed by all ranks
  bool together = true;       // all nodes have the same parameters (SyncPeriod)
};

// What this rank was asked to do after the step, and what all have to know: it travels with the
// step's sums.
struct StepRequests {
  bool stop = false;
  bool save = false;
  bool write_failed = false;  // a checkpoint that it was writing behind training
};

class TrainingStep {
 public:
  // gradients and control: the same ranks; nobody else may use `gradients`. All referenced objects
  // must outlive this.
  TrainingStep(const Config& config, Replica& replica, const Task& task, InputFormat format,
               const Sampler& sampler, std::int64_t total_steps, Communicator& gradients,
               Communicator& control);

  ~TrainingStep();

  // Collective. step: 0-based. Where a rank was asked to stop, nodes that are apart are averaged at
  // once, so that nothing is lost.
  // Throws SharedError (kNumerics) on all ranks where a loss or the gradient is not finite: before
  // any parameter has changed, but for train.update_in_backward.
  StepOutcome run(std::int64_t step, Loader& loader, StepRequests requests);

  const SyncPeriod& period() const { return period_; }
  Learner learner() { return {.update = update_, .reduction = *reduction_}; }

 private:
  struct Sums {  // of one step, over the ranks once agreed
    double loss = 0, metric = 0, not_finite = 0, stop = 0, save = 0, write_failed = 0;
    double bad_gradients = 0;               // ranks whose gradient is not finite
    double saturated = 0, underflowed = 0;  // elements
    double sample_hash = 0;                 // of the samples' ids: whole numbers, added exactly
    ExactSum squares = {};                  // of gradients
  };
  void accumulate(TensorBatch batch, double terms, bool last, double share, Sums& sums);
  void backward(const at::Tensor& loss) const;
  Sums agree(Sums local) const;
  void report_not_finite(std::int64_t step, const Sums& local, const Sums& all) const;
  std::vector<double> rates(std::int64_t step) const;  // [group]

  const Config& config_;
  Replica& replica_;
  const Task& task_;
  InputFormat format_;
  const Sampler& sampler_;
  Communicator& control_;
  int rank_;
  std::unique_ptr<ForwardContext> context_;
  SyncPeriod period_;
  Sharding sharding_;
  FlatParameters flat_;
  std::unique_ptr<GradientReduction> reduction_;
  GradientSync sync_;
  BufferAverage buffers_;
  ShardedUpdate update_;
  std::unique_ptr<NodeAverage> average_;   // null: nodes never part
  Schedule schedule_;                      // of optimizer.lr
  std::vector<Schedule> schedules_;        // [group]
  std::vector<std::int64_t> bad_samples_;  // of this rank's micro-batches whose loss was not finite
};

}  // namespace trireme
