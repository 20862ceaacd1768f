// SPDX-License-Identifier: Apache-2.0
#include "train/task.hpp"

#include <memory>
#include <utility>

#include <ATen/ops/from_blob.h>

namespace trireme {
namespace {

// The memory lives as long as the tensor.
at::Tensor adopt(std::vector<std::byte> bytes, const std::vector<std::int64_t>& shape,
                 at::ScalarType type) {
  auto owner = std::make_shared<std::vector<std::byte>>(std::move(bytes));
  return at::from_blob(
      owner->data(), shape, [owner](void*) {}, type);
}

// Only pinned memory is copied while the host goes on; torch keeps it until the copy is done.
at::Tensor to_device(const at::Tensor& tensor, at::Device device) {
  return device.is_cpu() ? tensor : tensor.pin_memory().to(device, /*non_blocking=*/true);
}

at::ScalarType wire_type(DType dtype) { return dtype == DType::kI64 ? at::kLong : at::kFloat; }

}  // namespace

at::ScalarType precision_of(const std::string& name) {
  TRIREME_ASSERT(name == "fp32" || name == "fp64", "unknown precision '" + name + "'");
  return name == "fp64" ? at::kDouble : at::kFloat;
}

TensorBatch to_tensors(HostBatch batch, const InputFormat& format) {
  const DatasetSpec& spec = format.spec;
  TensorBatch tensors;
  tensors.sample_ids = std::move(batch.sample_ids);
  tensors.samples = batch.samples;
  std::vector<std::int64_t> shape{batch.samples};
  shape.insert(shape.end(), spec.input_shape.begin(), spec.input_shape.end());
  const bool image = spec.input_dtype == DType::kU8;
  if (image && format.augment.channels_last) {
    const std::int64_t channels = shape[1];
    shape.erase(shape.begin() + 1);
    shape.push_back(channels);
    tensors.input = adopt(std::move(batch.input), shape, at::kFloat).permute({0, 3, 1, 2});
  } else {
    tensors.input = adopt(std::move(batch.input), shape, wire_type(spec.input_dtype));
  }
  if (tensors.input.is_floating_point()) tensors.input = tensors.input.to(format.precision);
  const std::int64_t terms = batch.samples * spec.targets_per_sample();
  tensors.target = adopt(std::move(batch.target), {terms}, wire_type(spec.target_dtype));
  if (tensors.target.is_floating_point()) tensors.target = tensors.target.to(format.precision);
  tensors.input = to_device(tensors.input, format.device);
  tensors.target = to_device(tensors.target, format.device);
  return tensors;
}

}  // namespace trireme
