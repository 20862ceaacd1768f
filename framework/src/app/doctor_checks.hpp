// SPDX-License-Identifier: Apache-2.0
// The single checks of `trainer doctor`. Those with a communicator are collective and give every
// rank a finding.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "app/findings.hpp"
#include "app/launch.hpp"
#include "app/nodes.hpp"
#include "comm/devices.hpp"
#include "comm/nccl.hpp"
#include "device/gpu.hpp"

namespace trireme {

// Trireme, LibTorch and its instruction set, HDF5, MPI.
std::vector<Finding> check_libraries(Launch& launch);

// What a build with CUDA needs to train on GPUs, and what it was built with.
struct GpuNeeds {
  std::string cuda = {};           // as cuda_version(); empty: this build is for CPUs
  NcclLibrary nccl = {};           // of this process
  std::string nccl_of_torch = {};  // as nccl_version_of_torch()
  int ranks = 1;                   // of this node: a GPU each
  bool wanted = false;  // run.device is cuda: what is missing fails, else it is a warning
};
// GPU driver, GPUs, CUDA, cuDNN and NCCL.
std::vector<Finding> check_gpus(const GpuSurvey& survey, const GpuNeeds& needs);

// What carries messages, and whether the ranks of a node share memory.
std::vector<Finding> check_transport(Launch& launch, const NetworkDevices& devices);

// Limits and resources of this process.
Finding check_memlock(std::uint64_t limit_bytes, bool has_rdma);
Finding check_shared_memory_folder(const std::filesystem::path& folder);
Finding check_cores(Communicator& world, int threads);

// Whether other hosts have the same addresses, among those that the settings use, or the settings
// use loopback alone. all: [rank] -> the interfaces of its host.
Finding check_addresses(const std::vector<std::vector<NetworkInterface>>& all, const Nodes& nodes,
                        int rank, const NetworkConfig& network);
Finding check_addresses(Communicator& world, const Nodes& nodes, const NetworkDevices& devices,
                        const NetworkConfig& network);

// When each event was, by the clock of its rank, in seconds: a barrier was entered and left.
struct BarrierTimes {
  double entered = 0;
  double left = 0;
};
struct ClockDifference {
  double seconds = 0;      // that rank's clock minus rank 0's
  double uncertainty = 0;  // half the interval that it lies in for certain
};
// No rank leaves a barrier before all have entered it: that bounds how far two clocks differ.
// [barrier], as many of each, at least one.
ClockDifference clock_difference(const std::vector<BarrierTimes>& reference,
                                 const std::vector<BarrierTimes>& other);
Finding check_clocks(Communicator& world);

// Sums known numbers over all ranks, for real.
Finding check_all_reduce(Communicator& world);

}  // namespace trireme
