// SPDX-License-Identifier: Apache-2.0
#include "parallel/flat_parameters.hpp"

#include <algorithm>
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

at::Tensor narrow(const at::Tensor& flat, Part part) {
  return flat.narrow(0, static_cast<std::int64_t>(part.begin),
                     static_cast<std::int64_t>(part.size()));
}

at::Tensor wrap(Buffer buffer, std::int64_t numel, DType dtype, at::Device device) {
  auto owner = std::make_shared<Buffer>(std::move(buffer));
  TRIREME_ASSERT(owner->size_bytes() >= static_cast<std::size_t>(numel) * size_of(dtype),
                 "buffer too small");
  return at::from_blob(
      owner->data(), {numel}, [owner](void*) {},
      at::TensorOptions().dtype(torch_type(dtype)).device(device));
}

namespace {

// In pieces: what lies outside of the node's memory is copied there to travel.
void broadcast_in_pieces(const at::Tensor& flat, Communicator& communicator) {
  constexpr std::int64_t kPiece = 1 << 20;  // elements
  for (std::int64_t begin = 0; begin < flat.numel(); begin += kPiece) {
    const std::int64_t count = std::min(kPiece, flat.numel() - begin);
    communicator.broadcast(span_of(flat.narrow(0, begin, count)), 0).wait();
  }
}

}  // namespace

void broadcast_values(const at::Tensor& tensor, Communicator& communicator) {
  const at::NoGradGuard no_grad;
  if (tensor.is_cpu() && tensor.is_non_overlapping_and_dense()) {
    const at::Tensor flat =
        tensor.detach().as_strided({tensor.numel()}, {1}, tensor.storage_offset());
    broadcast_in_pieces(flat, communicator);
    return;
  }
  const at::Tensor dense = tensor.detach().contiguous().cpu().view({-1});
  broadcast_in_pieces(dense, communicator);
  tensor.copy_(dense.view(tensor.sizes()));
}

FlatParameters::FlatParameters(std::vector<NamedTensor> parameters, BucketPlan plan,
                               Communicator& communicator)
    : parameters_(std::move(parameters)), plan_(std::move(plan)) {
  const at::NoGradGuard no_grad;
  for (const PlanBucket& bucket : plan_.buckets) {
    const std::size_t bytes = static_cast<std::size_t>(bucket.numel) * size_of(bucket.dtype);
    const at::Device device =
        parameters_[static_cast<std::size_t>(bucket.items.front().parameter)].tensor.device();
    values_.push_back(
        wrap(communicator.allocate_shared(bytes), bucket.numel, bucket.dtype, device));
    gradients_.push_back(wrap(communicator.allocate(bytes), bucket.numel, bucket.dtype, device));
    for (const PlanItem& item : bucket.items) {
      at::Tensor& parameter = parameters_[static_cast<std::size_t>(item.parameter)].tensor;
      TRIREME_ASSERT(parameter.is_non_overlapping_and_dense(), "parameters are dense");
      const at::Tensor value = view(values_.back(), 0, item);
      if (communicator.placement().local_rank == 0) value.copy_(parameter);
      parameter.set_data(value);
      parameter.mutable_grad() = view(gradients_.back(), 0, item);
    }
  }
  communicator.barrier();  // the values are there
}

void FlatParameters::begin_step() {
  for (const at::Tensor& gradients : gradients_) gradients.zero_();
  versions_.clear();
  for (const NamedTensor& parameter : parameters_)
    versions_.push_back(
        parameter.tensor.unsafeGetTensorImpl()->version_counter().current_version());
  holders_.clear();
  for (const at::Tensor& values : values_) holders_.push_back(values.storage().use_count());
}

void FlatParameters::require_unwritten() const {
  for (std::size_t b = 0; b < values_.size(); ++b) {
    for (const PlanItem& item : plan_.buckets[b].items) {
      const auto i = static_cast<std::size_t>(item.parameter);
      const auto& counter = parameters_[i].tensor.unsafeGetTensorImpl()->version_counter();
      const bool in_place = parameters_[i].tensor.storage().is_alias_of(values_[b].storage());
      if (in_place && counter.current_version() == versions_[i]) continue;
      throw ConfigError(
          "the model " + std::string(in_place ? "writes" : "replaces") + " its parameter '" +
          parameters_[i].name +
          "' while it trains; the ranks of a node share parameters, so that only the optimizer may "
          "write them: keep such state in a buffer (register_buffer)");
    }
  }
}

void FlatParameters::expect_writes(std::size_t bucket) {
  if (values_[bucket].storage().use_count() > holders_[bucket]) {
    throw ConfigError(
        "backward still needs a parameter that train.update_in_backward would update now, one of " +
        names_of(bucket) +
        ": the model uses it without a gradient, too (weight.detach(), weight.data()); set "
        "train.update_in_backward: false");
  }
  for (const PlanItem& item : plan_.buckets[bucket].items) {
    const auto parameter = static_cast<std::size_t>(item.parameter);
    parameters_[parameter].tensor.unsafeGetTensorImpl()->bump_version();
    ++versions_[parameter];
  }
}

void FlatParameters::wait(Request& request, const char* what, std::size_t bucket) const {
  try {
    request.wait();
  } catch (const CommError& error) {
    throw CommError(std::string(what) + " of bucket " + std::to_string(bucket + 1) + " of " +
                    std::to_string(plan_.buckets.size()) + " (" + names_of(bucket) +
                    "): " + error.what());
  }
}

std::string FlatParameters::names_of(std::size_t bucket) const {
  const auto name = [&](const PlanItem& item) {
    return "'" + parameters_[static_cast<std::size_t>(item.parameter)].name + "'";
  };
  const auto& items = plan_.buckets[bucket].items;
  return items.size() == 1 ? name(items.front())
                           : name(items.front()) + " to " + name(items.back());
}

at::Tensor FlatParameters::view(const at::Tensor& flat, std::int64_t flat_begin,
                                const PlanItem& item) const {
  const at::Tensor& like = parameters_[static_cast<std::size_t>(item.parameter)].tensor;
  return flat.as_strided(like.sizes(), like.strides(),
                         flat.storage_offset() + item.offset - flat_begin);
}

}  // namespace trireme
