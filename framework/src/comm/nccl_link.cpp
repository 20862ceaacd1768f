// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl_link.hpp"

#include <cstring>
#include <utility>

#include "comm/shared_error.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kMaxInFlight = 1024;
constexpr milliseconds kWatchPeriod{100};
constexpr milliseconds kCloseLimit{10'000};

// Before any member that takes something of the device.
const NcclOptions& on_device(const NcclOptions& options) {
  check_cuda(cudaSetDevice(options.device), "cudaSetDevice");
  return options;
}

std::string text_of(ncclResult_t result, ncclComm_t comm) {
  const char* last = ncclGetLastError(comm);
  const std::string detail = last != nullptr ? last : "";
  return std::string(ncclGetErrorString(result)) + (detail.empty() ? "" : " (" + detail + ")");
}

std::string late(const std::string& what, milliseconds timeout) {
  return what + ": not complete after " + std::to_string(timeout.count()) +
         " ms; another rank has not called it, has died, or cannot be reached. If it only needs "
         "longer, raise run.timeout; NCCL_DEBUG=INFO shows what NCCL does";
}

cudaStream_t make_stream() {
  int lowest = 0, highest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&lowest, &highest),
             "cudaDeviceGetStreamPriorityRange");
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, highest),
             "cudaStreamCreateWithPriority");
  return stream;
}

ncclUniqueId share_unique_id(Communicator& host) {
  ncclUniqueId id{};
  collectively(host, [&] {
    if (host.rank() != 0) return;
    const ncclResult_t result = ncclGetUniqueId(&id);
    if (result != ncclSuccess) throw CommError("ncclGetUniqueId: " + text_of(result, nullptr));
  });
  const std::string bytes = host.exchange({id.internal, sizeof id.internal}).front();
  std::memcpy(id.internal, bytes.data(), sizeof id.internal);
  return id;
}

}  // namespace

NcclLink::NcclLink(Communicator& host, const NcclOptions& options) : options_(on_device(options)) {
  stream_ = make_stream();
  create(host);
  watcher_ = std::thread([this] { watch(); });
}

void NcclLink::create(Communicator& host) {
  const ncclUniqueId id = share_unique_id(host);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;  // Note [No wait without an end]
  settle("making the NCCL group, rank " + std::to_string(host.rank()) + " of " +
             std::to_string(host.size()),
         ncclCommInitRankConfig(&comm_, host.size(), id, host.rank(), &config));
}

NcclLink::~NcclLink() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  watcher_.join();
  close(kCloseLimit);
  static_cast<void>(cudaStreamDestroy(stream_));  // fails where the device is gone only
}

// In order where nothing is in flight and all ranks come, else by force.
void NcclLink::close(milliseconds limit) {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return;
  options_.timeout = limit;
  try {
    retire_ended();
    if (in_flight_.empty()) {
      settle("ending the NCCL group", ncclCommFinalize(comm_));
      static_cast<void>(ncclCommDestroy(std::exchange(comm_, nullptr)));
    }
  } catch (const CommError&) {
    // What has failed was told, or the process is on its way out of another error.
  }
  if (comm_ != nullptr) static_cast<void>(ncclCommAbort(std::exchange(comm_, nullptr)));
}

std::shared_ptr<NcclFlight> NcclLink::new_flight(const std::string& what) {
  // Backward posts from autograd's own threads.
  check_cuda(cudaSetDevice(options_.device), "cudaSetDevice");
  auto flight = std::make_shared<NcclFlight>();
  flight->what = what;
  flight->timeout = options_.timeout;
  flight->reference = clock_.reference();
  return flight;
}

std::shared_ptr<const NcclFlight> NcclLink::post(const std::string& what, const Enqueue& enqueue) {
  std::unique_lock lock(mutex_);
  make_room(lock);
  throw_if_failed();
  const std::shared_ptr<NcclFlight> flight = new_flight(what);
  flight->ready.record(kComputeStream);
  flight->ready.hold_back(stream_);
  ncclResult_t result = ncclGroupStart();
  if (result == ncclSuccess) result = enqueue(comm_, stream_);
  const ncclResult_t ended = ncclGroupEnd();
  const bool pending = result == ncclSuccess || result == ncclInProgress;
  settle(what, pending ? ended : result);
  flight->done.record(stream_);
  in_flight_.push_back(flight);
  return flight;
}

std::shared_ptr<const NcclFlight> NcclLink::mark() {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<NcclFlight> flight = new_flight("mark");
  flight->done.record(kComputeStream);
  return flight;
}

// Waits until NCCL has taken the calls, which connects ranks at first. Under mutex_ (or alone).
void NcclLink::settle(const std::string& what, ncclResult_t result) {
  const auto start = Clock::now();
  while (result == ncclInProgress) {
    if (options_.timeout.count() > 0 && Clock::now() - start > options_.timeout) {
      reason_ = late(what, options_.timeout);
      break;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    const ncclResult_t asked = ncclCommGetAsyncError(comm_, &result);
    if (asked != ncclSuccess) result = asked;
  }
  if (result == ncclSuccess) return;
  if (reason_.empty()) reason_ = what + ": " + text_of(result, comm_);
  failed_.store(true, std::memory_order_release);
  if (comm_ != nullptr) static_cast<void>(ncclCommAbort(std::exchange(comm_, nullptr)));
  throw CommError(reason_);
}

void NcclLink::retire_ended() {
  while (!in_flight_.empty() && in_flight_.front()->done.reached()) in_flight_.pop_front();
}

void NcclLink::make_room(std::unique_lock<std::mutex>& lock) {
  retire_ended();
  while (in_flight_.size() >= kMaxInFlight) {
    const std::shared_ptr<NcclFlight> oldest = in_flight_.front();
    lock.unlock();  // or nobody would watch
    oldest->done.wait();
    lock.lock();
    retire_ended();
  }
}

void NcclLink::throw_if_failed() const {
  if (failed_.load(std::memory_order_acquire)) {
    throw CommError("communication between the GPUs has ended: " + reason_);
  }
}

NcclOptions NcclLink::options() const {
  const std::lock_guard lock(mutex_);
  return options_;
}

void NcclLink::set_timeout(milliseconds timeout) {
  const std::lock_guard lock(mutex_);
  options_.timeout = timeout;
}

// See Note [No wait without an end].
void NcclLink::watch() {
  std::string reason;
  std::unique_lock lock(mutex_);
  while (!stop_ && !failed_ && reason.empty()) {
    wake_.wait_for(lock, kWatchPeriod);
    try {
      reason = look();
    } catch (const CommError& error) {  // of CUDA: the device has failed
      reason = error.what();
    }
  }
  lock.unlock();
  if (!reason.empty()) fail(reason);
}

// Under mutex_. What has gone wrong; empty: nothing.
std::string NcclLink::look() {
  if (comm_ == nullptr) return {};
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm_, &state);
  if (asked != ncclSuccess) state = asked;
  retire_ended();
  const std::string oldest = in_flight_.empty() ? "between operations" : in_flight_.front()->what;
  if (state != ncclSuccess && state != ncclInProgress) {
    return oldest + ": NCCL reports " + text_of(state, comm_);
  }
  if (in_flight_.empty()) return {};
  NcclFlight& flight = *in_flight_.front();
  const auto now = Clock::now();
  if (flight.started == Clock::time_point{} && flight.ready.reached()) flight.started = now;
  const bool timed = flight.timeout.count() > 0 && flight.started != Clock::time_point{};
  return timed && now - flight.started > flight.timeout ? late(flight.what, flight.timeout)
                                                        : std::string();
}

void NcclLink::fail(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (failed_) return;  // told to the caller already
    reason_ = reason;
    failed_.store(true, std::memory_order_release);
  }
  if (options_.on_failure) options_.on_failure(reason);
  const std::lock_guard lock(mutex_);
  if (comm_ != nullptr) static_cast<void>(ncclCommAbort(std::exchange(comm_, nullptr)));
}

}  // namespace trireme
