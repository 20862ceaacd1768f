// SPDX-License-Identifier: Apache-2.0
// Sums gradients over ranks while backward still runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "parallel/flat_parameters.hpp"
#include "parallel/gradient_reduction.hpp"
#include "trireme/communicator.hpp"

namespace trireme {

// When one bucket's reduction was posted and done, in the last step.
struct BucketTiming {
  std::size_t size_bytes = 0;
  std::chrono::steady_clock::time_point posted, completed;
};

struct StepCommunication {
  std::vector<BucketTiming> buckets;  // [bucket]
  std::chrono::steady_clock::time_point backward_returned;
  double exposed_ms = 0;  // from backward's end to the last sum's, without updates in between

  // Share of bytes whose reduction was complete when backward returned; 0 where there are none.
  double overlapped_share() const;
};

// Note [When a bucket is ready]
// A gradient accumulator fires once for a plain parameter, but several times when re-entrant
// checkpoints share it, and not at all for an unused one. How often each fires is counted in the
// first step, in which every reduction waits for the end of backward; from then on a bucket is
// posted as soon as all of its parameters have fired that often (once, those that the first step
// did not use: their bucket, and those after it, are posted after backward in steps without them).
// Buckets are posted in plan order on every rank, whatever the order in which they fill, so a rank
// whose graph differs (no samples in this step, a branch not taken) posts late but never in another
// order. A gradient that arrives after its bucket was posted cannot be saved any more: that is an
// error that names the parameter.

// Note [Updates inside backward]
// A bucket that all ranks have posted is needed by no backward any more: every use of its
// parameters that takes a gradient has given it, and each gradient function has taken what it needs
// by then. So its update may follow its sum at once, while the numbers are in the cache and other
// ranks are still in backward. What this does not cover is a use that takes no gradient
// (weight.detach(), weight.data()) and comes later in backward. Such a use has a tensor of its own
// on the parameter's memory: when a rank posts a bucket, before any rank can write it, nobody but
// those who had the memory before the step may have it. (So a branch of the graph that backward
// does not take is refused, too, where it has saved a view of a weight.) What saves the parameter
// itself is an error of autograd ("modified by an inplace operation"), since the bucket is marked
// as written.

// One step is begin_step(), then for each micro-batch forward and backward, the last of them after
// expect_last_backward(), then finish_step(). Accumulation over the micro-batches before needs no
// communication. Not thread-safe; hooks run in the thread that calls backward or, on a GPU, in
// autograd's thread of that device while the caller waits.
class GradientSync {
 public:
  // Both must outlive this. Others may post on the reduction's communicator between begin_step()
  // and expect_last_backward(), the same on every rank (BufferAverage does), and after
  // finish_step(): in between it depends on the rank when a bucket is posted.
  GradientSync(FlatParameters& flat, GradientReduction& reduction);
  ~GradientSync();  // the hooks that stay with the parameters do nothing any more
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  // step: 0-based. Gradients become zero. update: called in this thread for each bucket in the
  // plan's order, as soon as its sum is complete, also while backward runs; empty: nobody is.
  void begin_step(std::int64_t step, std::function<void(std::size_t bucket)> update = {});
  void expect_last_backward();  // from here on full buckets are posted
  // Collective. Posts what is left and waits (on a GPU the device does). Afterwards this rank's
  // part of each bucket's gradients holds the sum over the ranks of Sharding::summing(); the rest
  // of the gradients is unspecified.
  void finish_step();

  // After finish_step(). On a GPU it waits for the reductions.
  const StepCommunication& last_step();

 private:
  class Hook;
  void on_gradient(std::size_t parameter);
  void post_ready_buckets();
  void post(std::size_t bucket);
  void update_summed_buckets();
  void update_next_bucket();

  FlatParameters& flat_;
  GradientReduction& reduction_;
  std::vector<std::shared_ptr<void>> accumulators_;  // kept alive: autograd holds them weakly
  std::shared_ptr<GradientSync*> self_;              // what hooks hold; null once this is gone
  std::vector<std::size_t> bucket_of_;               // [parameter]
  std::vector<int> expected_;             // [parameter] firings a backward, from the first step
  std::vector<int> fired_;                // [parameter] in this backward
  std::vector<std::size_t> missing_;      // [bucket] parameters that have not fired as expected
  std::size_t posted_ = 0, updated_ = 0;  // buckets
  std::function<void(std::size_t)> update_;
  std::chrono::steady_clock::duration updating_ = {};  // in finish_step()
  Request backward_done_;
  bool last_backward_ = false, counted_ = false;
  StepCommunication timing_;
};

}  // namespace trireme
