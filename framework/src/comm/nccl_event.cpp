// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl_event.hpp"

#include <string>

#include "trireme/error.hpp"

namespace trireme {

void check_cuda(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  throw CommError(std::string(call) + ": " + cudaGetErrorString(code));
}

DeviceEvent::DeviceEvent() { check_cuda(cudaEventCreate(&event_), "cudaEventCreate"); }

// Fails where the device is gone only, and then the process ends.
DeviceEvent::~DeviceEvent() { static_cast<void>(cudaEventDestroy(event_)); }

void DeviceEvent::record(cudaStream_t stream) {
  check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord");
}

void DeviceEvent::hold_back(cudaStream_t stream) const {
  check_cuda(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
}

bool DeviceEvent::reached() const {
  const cudaError_t code = cudaEventQuery(event_);
  if (code == cudaErrorNotReady) return false;
  check_cuda(code, "cudaEventQuery");
  return true;
}

void DeviceEvent::wait() const { check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize"); }

float DeviceEvent::ms_since(const DeviceEvent& earlier) const {
  float ms = 0;
  check_cuda(cudaEventElapsedTime(&ms, earlier.event_, event_), "cudaEventElapsedTime");
  return ms;
}

DeviceClock::DeviceClock() {
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
             "cudaStreamCreateWithFlags");
}

DeviceClock::~DeviceClock() { static_cast<void>(cudaStreamDestroy(stream_)); }

std::shared_ptr<const DeviceMoment> DeviceClock::reference() {
  const auto now = std::chrono::steady_clock::now();
  if (reference_ != nullptr && now - reference_->time < std::chrono::seconds(10)) return reference_;
  auto moment = std::make_shared<DeviceMoment>();
  moment->event.record(stream_);
  moment->event.wait();
  moment->time = std::chrono::steady_clock::now();
  reference_ = std::move(moment);
  return reference_;
}

}  // namespace trireme
