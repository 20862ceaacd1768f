// SPDX-License-Identifier: Apache-2.0
// What the trainer tells those who look on: plain numbers. Observers never steer and never
// communicate. Called on rank 0, from the training thread, in the order of what happens; an
// observer that cannot write warns once and stays quiet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct StartEvent {
  std::int64_t step = 0;            // steps done before: 0, or where a resumed run goes on
  bool evaluation_pending = false;  // the evaluation after `step` comes first
  std::int64_t total_steps = 0;
  std::int64_t steps_per_epoch = 0;
  int world_size = 1;
  std::int64_t parameters = 0;
  std::int64_t train_samples = 0;
};

struct StepEvent {
  std::int64_t step = 0;         // 1-based: steps done
  double epoch = 0;              // epochs done, fractional
  double loss = 0;               // mean over the global batch
  double metric = 0;             // mean over the global batch
  double lr = 0;                 // optimizer.lr times the schedule
  double grad_norm = 0;          // before clipping
  std::int64_t samples = 0;      // in this global batch
  std::int64_t sample_hash = 0;  // of the set of their ids, whoever has them
  double step_ms = 0;            // wall time of the whole step
  double data_wait_ms = 0;       // of it: waiting for input
  double comm_exposed_ms = 0;    // of it: waiting for reductions after backward
  double comm_overlap = 0;       // share of reduced bytes that were complete when backward returned
  std::int64_t comm_sent_bytes = 0;   // by rank 0, to other nodes
  std::int64_t comm_saturated = 0;    // numbers beyond the range of parallel.compression's type
  std::int64_t comm_underflowed = 0;  // numbers that became zero in it
};

// Means over steps, in milliseconds a step. What every rank does in these is on its own clock, so
// that clocks need not agree.
struct RankTimes {
  std::string host;
  double compute_ms = 0;  // neither of what follows
  double input_ms = 0;    // waiting for input
  double waited_ms = 0;   // for other ranks, in sums and their like, transfers included
  double late_ms = 0;  // how long after the first rank it arrived, summed over the phases of a step
  std::string late_at;  // the phase of which most of that is: "gradients"
};

struct RanksEvent {
  std::int64_t step = 0;         // the last one
  std::int64_t steps = 0;        // since the event before
  std::vector<RankTimes> ranks;  // [rank]
  // The rank that keeps the others waiting for more than a tenth of the time, or -1.
  int straggler = -1;
};

struct EvalProgress {
  std::string split;         // "validation" | "test"
  std::int64_t samples = 0;  // of the whole data set, done about now
  std::int64_t total = 0;
};

struct EvalEvent {
  std::int64_t step = 0;
  double epoch = 0;
  std::string split;  // "validation" | "test"
  double loss = 0;
  double metric = 0;
  std::int64_t samples = 0;
  double seconds = 0;
  bool best = false;  // best validation result so far
};

struct CheckpointEvent {
  std::int64_t step = 0;
  std::string path;
  std::int64_t size_bytes = 0;
  double seconds = 0;    // until it was committed; training goes on meanwhile
  double stall_ms = 0;   // of them: training stood still
  double waited_ms = 0;  // of those: for the checkpoint before to be committed
};

struct EndEvent {
  std::string status;        // "finished" | "early_stop" | "stopped"
  std::int64_t steps = 0;    // done in all, those before a resume included
  double seconds = 0;        // of this process, from the start event
  double samples_per_s = 0;  // training only
};

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_start(const StartEvent&) {}
  virtual void on_step(const StepEvent&) {}
  virtual void on_ranks(const RanksEvent&) {}
  virtual void on_eval_progress(const EvalProgress&) {}  // after each batch of an evaluation
  virtual void on_eval(const EvalEvent&) {}
  virtual void on_checkpoint(const CheckpointEvent&) {}
  virtual void on_end(const EndEvent&) {}
};

}  // namespace trireme
