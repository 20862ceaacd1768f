// SPDX-License-Identifier: Apache-2.0
// The GPU that a rank trains on. In a build without CUDA there is none: no_cuda.cpp stands for
// cuda.cpp.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// "13.0": the CUDA runtime that this program was built with; empty: it was built without CUDA.
std::string cuda_version();

// "2.28.9": the NCCL that LibTorch was built with; empty: built without CUDA.
std::string nccl_version_of_torch();

// What can be found of GPUs without using one, for `trainer doctor`; what is not there is empty.
struct GpuSurvey {
  std::string driver;              // "13.0": the newest CUDA that the driver runs
  std::string cudnn;               // "9.15.1": the one that LibTorch uses
  std::vector<std::string> names;  // of the GPUs that this process sees
};
GpuSurvey survey_gpus();

struct Gpu {
  int index = 0;     // among those that this process sees
  std::string name;  // "NVIDIA H200"
  std::string uuid;  // of the card, or of its slice: unique in the world
};

// How many GPUs this process sees, at least one. EnvironmentError where there is none, or where
// this is a build without CUDA.
int visible_gpus();

// Makes the GPU the one this process works on, and makes torch's kernels on it repeatable. Once,
// before torch uses a GPU.
//
// Note [Repeatable on GPUs]
// Same configuration, seed, world size, GPU model and libraries give the same bits: cuDNN and torch
// take deterministic kernels (torch warns of an operation that has none), cuDNN does not choose
// algorithms by timing them, cuBLAS gets a workspace of a fixed size (CUBLAS_WORKSPACE_CONFIG,
// unless it is set), and float32 products are not rounded to TF32, so that losses are a CPU's up to
// the order of additions.
Gpu use_gpu(int index);

// Which of the `visible` GPUs is the rank's: the only one, else that of its number among the ranks
// of its node. EnvironmentError where the node has fewer GPUs than ranks.
int choose_gpu(int visible, int local_rank, int local_ranks);

// EnvironmentError that names both ranks where two have the same GPU. uuids: [rank]
void require_own_gpus(const std::vector<std::string>& uuids);

}  // namespace trireme
