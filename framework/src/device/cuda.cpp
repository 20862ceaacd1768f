// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>
#include <cstdlib>

#include <cuda_runtime_api.h>

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <torch/csrc/cuda/nccl.h>

#include "device/gpu.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

void check(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  throw EnvironmentError(std::string(call) + ": " + cudaGetErrorString(code) +
                         "; `nvidia-smi` shows what the driver knows of the GPUs");
}

// "GPU-0123abcd-...", as nvidia-smi -L writes it.
std::string text_of(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    std::array<char, 3> byte{};
    std::snprintf(byte.data(), byte.size(), "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += byte.data();
  }
  return text;
}

// "13.0" of CUDA's 13000
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// See Note [Repeatable on GPUs].
void make_repeatable() {
  if (setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0) != 0) {
    throw EnvironmentError("cannot set CUBLAS_WORKSPACE_CONFIG in the environment");
  }
  at::Context& context = at::globalContext();
  context.setBenchmarkCuDNN(false);
  context.setDeterministicCuDNN(true);
  context.setDeterministicAlgorithms(true, /*warn_only=*/true);
  context.setDeterministicFillUninitializedMemory(false);  // for finding bugs; costs a pass
  context.setAllowTF32CuBLAS(false);
  context.setAllowTF32CuDNN(false);
}

}  // namespace

std::string cuda_version() { return version_text(CUDART_VERSION); }

GpuSurvey survey_gpus() {
  GpuSurvey survey;
  int version = 0;
  if (cudaDriverGetVersion(&version) == cudaSuccess && version > 0)
    survey.driver = version_text(version);
  const at::CUDAHooksInterface& hooks = at::detail::getCUDAHooks();
  if (hooks.hasCuDNN()) {
    const long packed = hooks.versionRuntimeCuDNN();  // from version 9 on: 91501
    survey.cudnn = std::to_string(packed / 10000) + "." + std::to_string(packed / 100 % 100) + "." +
                   std::to_string(packed % 100);
  }
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return survey;  // none is visible
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
    survey.names.emplace_back(properties.name);
  }
  return survey;
}

std::string nccl_version_of_torch() {
  const std::uint64_t packed = torch::cuda::nccl::version();  // 32 bits major, 16 minor, 16 patch
  return std::to_string(packed >> 32) + "." + std::to_string(packed >> 16 & 0xFFFF) + "." +
         std::to_string(packed & 0xFFFF);
}

int visible_gpus() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return count;
  throw EnvironmentError(
      std::string("run.device is cuda, but this rank sees no GPU (cudaGetDeviceCount: ") +
      (code == cudaSuccess ? "none visible" : cudaGetErrorString(code)) +
      "); look at `nvidia-smi` and CUDA_VISIBLE_DEVICES on its node, or set run.device=cpu");
}

Gpu use_gpu(int index) {
  make_repeatable();
  check(cudaSetDevice(index), "cudaSetDevice");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  TRIREME_ASSERT(at::globalContext().hasCUDA(), "this LibTorch has no CUDA kernels");
  return {.index = index, .name = properties.name, .uuid = text_of(properties.uuid)};
}

}  // namespace trireme
