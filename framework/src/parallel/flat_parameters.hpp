// SPDX-License-Identifier: Apache-2.0
// A model's trained parameters and their gradients as views into one flat buffer a bucket.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "parallel/bucket_plan.hpp"
#include "trireme/communicator.hpp"

namespace trireme {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

bool can_travel(const at::Tensor& tensor);  // whether it has a type that communicators move
DType dtype_of(const at::Tensor& tensor);   // InternalError for another type; bool travels as bytes
Span span_of(
    const at::Tensor& contiguous);  // of a dense one-dimensional tensor; the tensor stays the owner
// The tensor owns the buffer, which lies in the device's memory.
at::Tensor wrap(Buffer buffer, std::int64_t numel, DType dtype, at::Device device);
// Collective over ranks that communicate in host memory. Rank 0's values into every rank's tensor,
// in place; any dense strides, any device. Waits.
void broadcast_values(const at::Tensor& tensor, Communicator& communicator);

class FlatParameters {
 public:
  // Moves each parameter's value into its bucket and points parameter and gradient there (shape,
  // strides and value stay). All lie on one device, whose memory the communicator allocates.
  // Nothing may replace a parameter's or gradient's storage afterwards (to(), set_data,
  // zero_grad(set_to_none)).
  FlatParameters(std::vector<NamedTensor> parameters, BucketPlan plan, Communicator& communicator);

  const BucketPlan& plan() const { return plan_; }
  const std::vector<NamedTensor>& parameters() const {
    return parameters_;
  }  // [parameter], registration order
  const at::Tensor& values(std::size_t bucket) const { return values_[bucket]; }        // (numel)
  const at::Tensor& gradients(std::size_t bucket) const { return gradients_[bucket]; }  // (numel)
  void zero_gradients();

  // A parameter-shaped view of `flat`, whose element 0 is element `flat_begin` of the bucket that
  // holds `item`.
  at::Tensor view(const at::Tensor& flat, std::int64_t flat_begin, const PlanItem& item) const;

 private:
  std::vector<NamedTensor> parameters_;
  BucketPlan plan_;
  std::vector<at::Tensor> values_, gradients_;  // [bucket]
};

}  // namespace trireme
