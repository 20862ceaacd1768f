// SPDX-License-Identifier: Apache-2.0
// In place of cuda.cpp where CUDA is not built in.
#include "device/gpu.hpp"
#include "trireme/error.hpp"

namespace trireme {

std::string cuda_version() { return {}; }

std::string nccl_version_of_torch() { return {}; }

GpuSurvey survey_gpus() { return {}; }

int visible_gpus() {
  throw EnvironmentError(
      "run.device is cuda, but this program was built without CUDA; build one that has it "
      "(scripts/setup --cuda, then cmake --preset cuda-release and cmake --build --preset "
      "cuda-release), or set run.device=cpu");
}

Gpu use_gpu(int) { TRIREME_ASSERT(false, "there is no GPU in a build without CUDA"); }

}  // namespace trireme
