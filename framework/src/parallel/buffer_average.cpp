// SPDX-License-Identifier: Apache-2.0
#include "parallel/buffer_average.hpp"

#include <ATen/ops/empty.h>

#include "parallel/flat_parameters.hpp"

namespace trireme {

BufferAverage::BufferAverage(std::vector<at::Tensor> buffers, Communicator& communicator)
    : communicator_(communicator) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    std::int64_t numel = 0;
    for (const at::Tensor& buffer : buffers) numel += buffer.scalar_type() == type ? buffer.numel() : 0;
    if (numel == 0) continue;
    flat_.push_back(at::empty({numel}, type));
    std::int64_t offset = 0;
    for (at::Tensor& buffer : buffers) {
      if (buffer.scalar_type() != type) continue;
      const at::Tensor view = flat_.back().narrow(0, offset, buffer.numel()).view(buffer.sizes());
      view.copy_(buffer);
      buffer.set_data(view);
      offset += buffer.numel();
    }
  }
}

void BufferAverage::begin(double weight) {
  if (communicator_.size() == 1) return;
  for (const at::Tensor& flat : flat_) {
    flat.mul_(weight);
    requests_.push_back(communicator_.all_reduce(span_of(flat)));
  }
}

void BufferAverage::finish() {
  for (Request& request : requests_) request.wait();
  requests_.clear();
}

}  // namespace trireme
