// SPDX-License-Identifier: Apache-2.0
#include "parallel/buffer_average.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "parallel/flat_parameters.hpp"

namespace trireme {

BufferAverage::BufferAverage(const std::vector<at::Tensor>& buffers, Communicator& communicator)
    : communicator_(communicator) {
  std::int64_t numel = 0;
  for (const at::Tensor& buffer : buffers) {
    if (!buffer.is_floating_point() || communicator.size() == 1) continue;
    buffers_.push_back(buffer);
    before_.push_back(buffer.detach().clone());
    numel += buffer.numel();
  }
  const at::Device device = buffers_.empty() ? at::kCPU : buffers_.front().device();
  changes_ = at::zeros({numel}, at::TensorOptions().dtype(at::kDouble).device(device));
}

void BufferAverage::begin_step() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < buffers_.size(); ++i) before_[i].copy_(buffers_[i]);
}

void BufferAverage::start(double share) {
  if (buffers_.empty()) return;
  const at::NoGradGuard no_grad;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const at::Tensor part =
        changes_.narrow(0, offset, buffers_[i].numel()).view(buffers_[i].sizes());
    part.copy_(buffers_[i]).sub_(before_[i]).mul_(share);
    offset += buffers_[i].numel();
  }
  request_ = communicator_.all_reduce(span_of(changes_));
}

void BufferAverage::finish_step() {
  const at::NoGradGuard no_grad;
  request_.wait();
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const at::Tensor part =
        changes_.narrow(0, offset, buffers_[i].numel()).view(buffers_[i].sizes());
    buffers_[i].copy_(part.add_(before_[i]));
    offset += buffers_[i].numel();
  }
}

}  // namespace trireme
