// SPDX-License-Identifier: Apache-2.0
// Where this rank trains: on its CPU cores or on its GPU.
#pragma once

#include <functional>
#include <string>

#include <c10/core/Device.h>

#include "trireme/communicator.hpp"

namespace trireme {

struct RankDevice {
  at::Device device = at::kCPU;
  std::string name = "cpu";  // "NVIDIA H200"
  // Told when the communication between GPUs has failed: NcclOptions::on_failure.
  std::function<void(const std::string&)> on_failure = {};
};

// Collective. wish: "cpu" or "cuda" (run.device). For cuda each rank gets a GPU of its own, and the
// process is set to it. SharedError where that cannot be, or where Trireme and LibTorch would call
// different NCCL libraries.
RankDevice find_device(const std::string& wish, Communicator& world);

}  // namespace trireme
