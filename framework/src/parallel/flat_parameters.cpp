// SPDX-License-Identifier: Apache-2.0
#include "parallel/flat_parameters.hpp"

#include <memory>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include "trireme/error.hpp"

namespace trireme {
namespace {

at::ScalarType torch_type(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return at::kByte;
    case DType::kI64:
      return at::kLong;
    case DType::kF32:
      return at::kFloat;
    case DType::kF64:
      return at::kDouble;
  }
  TRIREME_ASSERT(false, "unknown dtype");
}

}  // namespace

bool can_travel(const at::Tensor& tensor) {
  for (const auto type : {at::kByte, at::kBool, at::kLong, at::kFloat, at::kDouble}) {
    if (tensor.scalar_type() == type) return true;
  }
  return false;
}

DType dtype_of(const at::Tensor& tensor) {
  TRIREME_ASSERT(can_travel(tensor),
                 std::string("no communicator moves ") + c10::toString(tensor.scalar_type()));
  switch (tensor.scalar_type()) {
    case at::kLong:
      return DType::kI64;
    case at::kFloat:
      return DType::kF32;
    case at::kDouble:
      return DType::kF64;
    default:
      return DType::kU8;
  }
}

Span span_of(const at::Tensor& contiguous) {
  TRIREME_ASSERT(contiguous.is_contiguous(), "only dense tensors travel");
  return {contiguous.data_ptr(), static_cast<std::size_t>(contiguous.numel()),
          dtype_of(contiguous)};
}

at::Tensor wrap(Buffer buffer, std::int64_t numel, DType dtype, at::Device device) {
  auto owner = std::make_shared<Buffer>(std::move(buffer));
  TRIREME_ASSERT(owner->size_bytes() >= static_cast<std::size_t>(numel) * size_of(dtype),
                 "buffer too small");
  return at::from_blob(
      owner->data(), {numel}, [owner](void*) {},
      at::TensorOptions().dtype(torch_type(dtype)).device(device));
}

void broadcast_values(const at::Tensor& tensor, Communicator& communicator) {
  const at::NoGradGuard no_grad;
  const at::Tensor dense = tensor.detach().contiguous().cpu().view({-1});
  communicator.broadcast(span_of(dense), 0).wait();
  if (dense.data_ptr() != tensor.data_ptr()) tensor.copy_(dense.view(tensor.sizes()));
}

FlatParameters::FlatParameters(std::vector<NamedTensor> parameters, BucketPlan plan,
                               Communicator& communicator)
    : parameters_(std::move(parameters)), plan_(std::move(plan)) {
  const at::NoGradGuard no_grad;
  for (const PlanBucket& bucket : plan_.buckets) {
    const std::size_t bytes = static_cast<std::size_t>(bucket.numel) * size_of(bucket.dtype);
    const at::Device device =
        parameters_[static_cast<std::size_t>(bucket.items.front().parameter)].tensor.device();
    values_.push_back(wrap(communicator.allocate(bytes), bucket.numel, bucket.dtype, device));
    gradients_.push_back(wrap(communicator.allocate(bytes), bucket.numel, bucket.dtype, device));
    for (const PlanItem& item : bucket.items) {
      at::Tensor& parameter = parameters_[static_cast<std::size_t>(item.parameter)].tensor;
      TRIREME_ASSERT(parameter.is_non_overlapping_and_dense(), "parameters are dense");
      const at::Tensor value = view(values_.back(), 0, item);
      value.copy_(parameter);
      parameter.set_data(value);
      parameter.mutable_grad() = view(gradients_.back(), 0, item);
    }
  }
}

void FlatParameters::zero_gradients() {
  for (const at::Tensor& gradients : gradients_) gradients.zero_();
}

at::Tensor FlatParameters::view(const at::Tensor& flat, std::int64_t flat_begin,
                                const PlanItem& item) const {
  const at::Tensor& like = parameters_[static_cast<std::size_t>(item.parameter)].tensor;
  return flat.as_strided(like.sizes(), like.strides(),
                         flat.storage_offset() + item.offset - flat_begin);
}

}  // namespace trireme
