// SPDX-License-Identifier: Apache-2.0
// How the gradients of one bucket are summed over ranks: exactly, at half width, or compressed.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "parallel/flat_parameters.hpp"
#include "parallel/sharding.hpp"
#include "trireme/communicator.hpp"

namespace trireme {

class GradientReduction {
 public:
  // A tensor of a checkpoint: "residual.0" of a parameter. On rank 0.
  using Visit =
      std::function<void(const std::string& slot, std::size_t parameter, const at::Tensor& tensor)>;
  // Fills the tensor; false where the checkpoint has none of this name and shape. On rank 0.
  using Fetch =
      std::function<bool(const std::string& slot, std::size_t parameter, const at::Tensor& tensor)>;

  virtual ~GradientReduction() = default;

  virtual void begin_step(std::int64_t step) = 0;  // 0-based
  // As Communicator::mark().
  virtual Request mark() = 0;
  // Collective, in the plan's order: starts the sum of a bucket whose gradients are complete.
  virtual void post(std::size_t bucket) = 0;
  // Whether a posted bucket's sum is complete; moves it on where this thread can. False where it is
  // only known after finish_step().
  virtual bool test(std::size_t bucket) = 0;
  // Collective, after the last post(): waits (on a GPU the device does). Then this rank's part of
  // each bucket's gradients holds the sum over the ranks of Sharding::summing(); the rest of the
  // gradients is unspecified.
  virtual void finish_step() = 0;
  // When a bucket's sum was complete; after finish_step(), before the next begin_step(). On a GPU
  // it waits for that.
  virtual std::chrono::steady_clock::time_point completed_at(std::size_t bucket) const = 0;
  // What this rank's roundings of the last step have lost.
  virtual WireCounts counts() const { return {}; }

  // Collective. What a resumed run needs to go on exactly.
  virtual void visit_state(const Visit&) {}
  virtual void restore_state(const Fetch&) {}
};

// What the configuration asks for; flat and sharding must outlive it. Collective. ConfigError where
// the gradients have a type that cannot be compressed.
std::unique_ptr<GradientReduction> make_reduction(const ParallelConfig& config,
                                                  FlatParameters& flat, Sharding& sharding);

}  // namespace trireme
