// SPDX-License-Identifier: Apache-2.0
// Keeps a model's floating buffers (BatchNorm's running statistics) equal on all ranks.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/communicator.hpp"

namespace trireme {

// After each step every buffer is the mean of the ranks' buffers, weighted by the samples each has seen in that step. The
// running statistics are linear in the batches' statistics, so this is what one rank would keep that averages the ranks'
// batch statistics. Every step, not only before saving: then neither checkpoint cadence nor a resume changes anything.
class BufferAverage {
 public:
  // Takes over the buffers' storage: afterwards they are views of one flat tensor a dtype.
  BufferAverage(std::vector<at::Tensor> buffers, Communicator& communicator);

  // Collective; after the step's last forward. weight: this rank's share of the step's samples; shares sum to 1.
  void begin(double weight);
  void finish();  // waits

 private:
  Communicator& communicator_;
  std::vector<at::Tensor> flat_;  // [dtype that occurs]
  std::vector<Request> requests_;
};

}  // namespace trireme
