// SPDX-License-Identifier: Apache-2.0
// What is learned, and how its inputs reach the model as tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "data/loader.hpp"
#include "trireme/registry.hpp"

namespace trireme {

struct Task {
  LossFunction loss;      // sum over terms
  MetricFunction metric;  // sum over terms
  bool metric_higher_is_better = true;
  bool mean_loss = true;  // the gradient is of the mean over the global batch, else of the sum
};

// How host batches become tensors.
struct InputFormat {
  DatasetSpec spec;
  at::ScalarType precision = at::kFloat;  // of floating inputs
  AugmentOptions augment;
  at::Device device = at::kCPU;  // where batches are wanted
};

// One micro-batch as tensors: input (N, input_shape...), target (N * targets_per_sample).
struct TensorBatch {
  at::Tensor input, target;
  std::vector<std::int64_t> sample_ids;  // [row]
  std::int64_t samples = 0;
};

// Takes the host batch's memory over; nothing is copied unless precision or device ask for it. To a
// GPU the copy is ordered before what the compute stream is given next; the host goes on.
TensorBatch to_tensors(HostBatch batch, const InputFormat& format);

// "fp32" or "fp64" of train.precision.
at::ScalarType precision_of(const std::string& name);

}  // namespace trireme
