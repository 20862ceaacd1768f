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
at::Tensor narrow(const at::Tensor& flat, Part part);  // a view of these elements
// The tensor owns the buffer, which lies in the device's memory.
at::Tensor wrap(Buffer buffer, std::int64_t numel, DType dtype, at::Device device);
// Collective over ranks that communicate in host memory. Rank 0's values into every rank's tensor,
// in place; any dense strides, any device. Waits.
void broadcast_values(const at::Tensor& tensor, Communicator& communicator);

// Note [Shared parameters]
// The ranks of a node have one copy of the parameters, in memory that all of them map. Only the
// update writes it, each rank its own part, and only when all ranks have finished backward: a write
// through shared memory would change what another rank computes, and autograd cannot see it. A
// layer that writes its parameters in forward (max_norm, spectral normalisation in place) therefore
// cannot be trained here; autograd's version counters tell. They do not tell of a write through
// weight.data() or a raw pointer, which hides from autograd on purpose: a model must not do that.
class FlatParameters {
 public:
  // Collective; the parameters are equal on all ranks. Moves each parameter's value into its bucket
  // and points parameter and gradient there (shape, strides and value stay). All lie on one device,
  // whose memory the communicator allocates. Nothing may replace a parameter's or gradient's
  // storage afterwards (to(), set_data, zero_grad(set_to_none)). The ranks of a node share the
  // values (Note [Shared parameters]), gradients are each rank's own.
  FlatParameters(std::vector<NamedTensor> parameters, BucketPlan plan, Communicator& communicator);

  const BucketPlan& plan() const { return plan_; }
  const std::vector<NamedTensor>& parameters() const {
    return parameters_;
  }  // [parameter], registration order
  const at::Tensor& values(std::size_t bucket) const { return values_[bucket]; }        // (numel)
  const at::Tensor& gradients(std::size_t bucket) const { return gradients_[bucket]; }  // (numel)
  void begin_step();  // gradients become zero
  // ConfigError where the model has written a parameter since begin_step(), or put another tensor
  // in its place.
  void require_unwritten() const;
  // From here on a parameter of this bucket may change under the step. ConfigError where another
  // tensor than before the step has its memory: backward still needs it. What is saved without such
  // a tensor fails in autograd.
  void expect_writes(std::size_t bucket);

  // Waits for an operation on a bucket; a CommError then says what was on its way: "gradients" or
  // "parameters", and of which bucket.
  void wait(Request& request, const char* what, std::size_t bucket) const;

  // A parameter-shaped view of `flat`, whose element 0 is element `flat_begin` of the bucket that
  // holds `item`.
  at::Tensor view(const at::Tensor& flat, std::int64_t flat_begin, const PlanItem& item) const;

 private:
  std::string names_of(std::size_t bucket) const;  // "'first' to 'last'"

  std::vector<NamedTensor> parameters_;
  BucketPlan plan_;
  std::vector<at::Tensor> values_, gradients_;  // [bucket]
  std::vector<std::uint32_t> versions_;         // [parameter] at begin_step()
  std::vector<std::size_t> holders_;  // [bucket] how many have the values' memory, at begin_step()
};

}  // namespace trireme
