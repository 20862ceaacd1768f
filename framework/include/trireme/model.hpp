// SPDX-License-Identifier: Apache-2.0
// Base of all models, and the layers that they use in place of torch's where ranks share a batch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <torch/nn/module.h>

namespace trireme {

class Communicator;

// A torch::nn::Module with one input and one output. Derive, register (registry.hpp), and name it
// in `model.name`.
class Model : public torch::nn::Module {
 public:
  // input: (N, ...) as the data set gives it, floating in train.precision or int64 token ids.
  // Output: what the loss wants, for cross_entropy (N, classes) or (N * T, classes). Called from
  // one thread at a time. N may be 0 where the configuration has parallel.sync_batch_norm: a rank
  // without samples still takes part in the layers' exchanges.
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

struct BatchNormOptions {
  double eps = 1e-5;      // > 0; added to the variance
  double momentum = 0.1;  // [0, 1]; weight of the newest statistics in the running ones
};

// Batch normalisation (Ioffe & Szegedy 2015) of inputs (N, C) or (N, C, ...): by the statistics of
// the batch in training, by the running ones in eval mode. Names, start and, bit for bit, results
// are those of torch::nn::BatchNorm1d, 2d and 3d. Use it instead of them: with
// parallel.sync_batch_norm the trainer binds it to all ranks, and the batch is then what all ranks
// have together. Training with fewer than two values a channel is an Error of code kUsage.
class BatchNorm : public torch::nn::Module {
 public:
  explicit BatchNorm(std::int64_t channels, const BatchNormOptions& options = {});

  // Collective over `ranks` where bound and in training, and then so is the backward pass of an
  // input that takes a gradient: every rank runs the same layers in the same order, with N = 0
  // where it has no samples. Input: c10::Error unless it has C channels. There is no second
  // derivative of a bound layer: asking for one is an InternalError.
  torch::Tensor forward(const torch::Tensor& input);

  // ranks: for this and other BatchNorms alone; it must outlive the training. name: of this layer,
  // for messages.
  void bind(Communicator& ranks, std::string name);
  bool is_bound() const { return ranks_ != nullptr; }

  torch::Tensor weight, bias;               // (C) parameters, at first 1 and 0
  torch::Tensor running_mean, running_var;  // (C) buffers, at first 0 and 1; the unbiased variance
  torch::Tensor num_batches_tracked;        // () int64, buffer: forwards in training

 private:
  torch::Tensor forward_over_ranks(const torch::Tensor& input);

  BatchNormOptions options_;
  Communicator* ranks_ = nullptr;
  std::string name_;
};

}  // namespace trireme
