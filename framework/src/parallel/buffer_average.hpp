// SPDX-License-Identifier: Apache-2.0
// Keeps a model's floating buffers (BatchNorm's running statistics) equal on all ranks.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/communicator.hpp"

namespace trireme {

// After each step every floating buffer is what it was before the step plus the mean of the ranks'
// changes, weighted by the samples that each rank has seen. Running statistics are linear in the
// batches' statistics, so this is what one rank would keep that averages the ranks' batch
// statistics; a buffer that does not change keeps its bits. Every step, not only before saving:
// then neither checkpoint cadence nor a resume changes anything. Buffers of whole numbers stay each
// rank's own (num_batches_tracked), and a checkpoint holds rank 0's.
class BufferAverage {
 public:
  // The buffers must keep their storage; others than floating ones are left alone.
  BufferAverage(const std::vector<at::Tensor>& buffers, Communicator& communicator);

  void begin_step();  // before the step's first forward
  // Collective; after the step's last forward, and before GradientSync::expect_last_backward()
  // where gradients use the same communicator. Backward may still read the buffers: a copy travels.
  // share: of the step's samples, this rank's; shares sum to 1.
  void start(double share);
  void finish_step();  // waits, then writes the buffers; after backward

 private:
  std::vector<at::Tensor> buffers_;  // floating ones
  std::vector<at::Tensor> before_;   // [buffer] at the start of the step
  Communicator& communicator_;
  at::Tensor
      changes_;  // (numbers of all buffers) float64: sums lose nothing that a float32 could tell
  Request request_;
};

}  // namespace trireme
