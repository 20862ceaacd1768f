// SPDX-License-Identifier: Apache-2.0
// Checked calls of CUDA, and its events as objects. Internal to the NCCL communicator.
#pragma once

#include <chrono>
#include <memory>

#include <cuda_runtime_api.h>

namespace trireme {

void check_cuda(cudaError_t code, const char* call);  // CommError

// The stream that torch computes on: Note [Streams].
inline constexpr cudaStream_t kComputeStream = nullptr;

// A place in a stream, on the device that was current when it was made.
class DeviceEvent {
 public:
  DeviceEvent();
  ~DeviceEvent();
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;

  void record(cudaStream_t stream);           // from here on: behind all that it was given
  void hold_back(cudaStream_t stream) const;  // what `stream` is given from now on waits for it
  bool reached() const;                       // true, too, where it was never recorded
  void wait() const;                          // blocks the host
  float ms_since(const DeviceEvent& earlier) const;  // both reached

 private:
  cudaEvent_t event_ = nullptr;
};

// One moment by the device's clock and by the host's.
struct DeviceMoment {
  DeviceEvent event;
  std::chrono::steady_clock::time_point time;
};

// Turns moments of the device into the steady clock's. Events tell time by float differences in
// milliseconds, so a new reference is taken every ten seconds, on a stream that nothing else uses:
// that costs some 20 microseconds of the caller's.
class DeviceClock {
 public:
  DeviceClock();
  ~DeviceClock();
  DeviceClock(const DeviceClock&) = delete;
  DeviceClock& operator=(const DeviceClock&) = delete;

  // A reference for events that are recorded from now on.
  std::shared_ptr<const DeviceMoment> reference();

 private:
  cudaStream_t stream_ = nullptr;
  std::shared_ptr<const DeviceMoment> reference_;
};

}  // namespace trireme
