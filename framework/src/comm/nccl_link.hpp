// SPDX-License-Identifier: Apache-2.0
// One NCCL group of this rank: its handle, its stream, and the thread that watches over it.
// Internal to the NCCL communicator.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <nccl.h>

#include "comm/nccl.hpp"
#include "comm/nccl_event.hpp"

namespace trireme {

// One posted operation on the device.
struct NcclFlight {
  std::string what;         // "all_reduce #17 (1024 f32) on rank 0 of 2"
  DeviceEvent ready, done;  // the device may begin; it has ended
  std::shared_ptr<const DeviceMoment> reference;
  std::chrono::milliseconds timeout{};  // from when it is the oldest and the device is ready
  std::chrono::steady_clock::time_point started{};  // as the watching thread saw it; epoch: not yet
};

// Any thread may call it.
class NcclLink {
 public:
  // Collective over host. Throws CommError, SharedError.
  NcclLink(Communicator& host, const NcclOptions& options);
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  // Makes the NCCL calls of one operation, as one group; returns the first that fails.
  using Enqueue = std::function<ncclResult_t(ncclComm_t, cudaStream_t)>;
  std::shared_ptr<const NcclFlight> post(const std::string& what, const Enqueue& enqueue);
  // Done when the compute stream has done what it was given so far.
  std::shared_ptr<const NcclFlight> mark();

  void throw_if_failed() const;  // CommError where any operation has failed
  int device() const { return options_.device; }
  NcclOptions options() const;  // with the time-out that holds now
  void set_timeout(std::chrono::milliseconds timeout);

 private:
  void create(Communicator& host);
  std::shared_ptr<NcclFlight> new_flight(const std::string& what);
  void settle(const std::string& what, ncclResult_t result);
  void retire_ended();
  void make_room(std::unique_lock<std::mutex>& lock);
  void watch();
  std::string look();
  void fail(const std::string& reason);
  void close(std::chrono::milliseconds limit);

  NcclOptions options_;
  mutable std::mutex mutex_;  // guards all below, and every NCCL call
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  DeviceClock clock_;
  std::deque<std::shared_ptr<NcclFlight>> in_flight_;  // in order of posting
  std::string reason_;                                 // written once, before failed_
  std::atomic<bool> failed_ = false;
  bool stop_ = false;
  std::condition_variable wake_;
  std::thread watcher_;
};

}  // namespace trireme
