// SPDX-License-Identifier: Apache-2.0
// Base of all models, and the Dropout they use.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <torch/nn/module.h>

namespace trireme {

// A torch::nn::Module with one input and one output. Derive, register (registry.hpp), and name it
// in `model.name`.
class Model : public torch::nn::Module {
 public:
  // input: (N, ...) as the data set gives it, floating in train.precision or int64 token ids.
  // Output: what the loss wants, for cross_entropy (N, classes) or (N * T, classes). Called from
  // one thread at a time.
  virtual torch::Tensor forward(const torch::Tensor& input) = 0;

  // A model whose start depends on data (whitening, say) returns how many samples it wants; it then
  // gets that many training samples (fewer if there are fewer), not augmented, normalised, in
  // data-set order, once, before training and before parameters are broadcast from rank 0. Runs on
  // rank 0 only.
  virtual std::int64_t num_init_samples() const { return 0; }
  virtual void init_from_samples(const torch::Tensor& /*inputs*/) {}
};

// What randomness in a forward pass is drawn from: nothing else, so that resume, other world sizes
// and recomputation replay it. The trainer fills it before each forward.
struct ForwardContext {
  std::uint64_t seed = 0;                    // run.seed
  std::int64_t step = 0;                     // optimizer step
  std::span<const std::int64_t> sample_ids;  // [row of the batch]
};

// Dropout whose mask is a pure function of (seed, step, sample, layer, element): Philox4x32-10
// (Salmon et al. 2011). Use it instead of torch::nn::Dropout, one module for each place in the
// network: two calls of one module in a forward pass draw the same mask. Identity in eval mode and
// for probability 0. Input: (N, ...) with one row a sample, or (N * T, ...) with equal T rows a
// sample.
class Dropout : public torch::nn::Module {
 public:
  explicit Dropout(double probability);  // [0, 1)
  torch::Tensor forward(const torch::Tensor& input);

  // Called once by the trainer, which owns the context. Training without it is an InternalError.
  void bind(const ForwardContext* context, std::uint64_t layer) {
    context_ = context;
    layer_ = layer;
  }

 private:
  double probability_;
  const ForwardContext* context_ = nullptr;
  std::uint64_t layer_ = 0;
};

}  // namespace trireme
