// SPDX-License-Identifier: Apache-2.0
#include "fake_cuda.hpp"

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/sum.hpp"

namespace {

using Clock = std::chrono::steady_clock;

// One lock for the whole fake: correctness is what it is for.
std::mutex mutex;
std::condition_variable changed;
thread_local int current_device = 0;
std::map<int, ncclResult_t> async_errors;  // [device]
std::atomic<int> num_aborts = 0;

struct EventState {
  bool done = false;
  Clock::time_point time;
};

}  // namespace

struct CUevent_st {
  std::shared_ptr<EventState> state;  // of the last record; null: none
};

struct CUstream_st {
  CUstream_st() : thread([this] { run(); }) {}
  ~CUstream_st() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    changed.notify_all();
    thread.join();
  }
  void give(std::function<void()> task) {
    const std::lock_guard lock(mutex);
    tasks.push_back(std::move(task));
    changed.notify_all();
  }
  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return stop || !tasks.empty(); });
      if (tasks.empty()) return;
      const std::function<void()> task = std::move(tasks.front());
      tasks.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::deque<std::function<void()>> tasks;
  bool stop = false;
  std::thread thread;
};

namespace {

void give(cudaStream_t stream, std::function<void()> task) {
  stream != nullptr ? stream->give(std::move(task)) : task();
}

void await(const std::shared_ptr<EventState>& state) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return state == nullptr || state->done; });
}

enum class Kind { kAllReduce, kReduce, kBroadcast, kReduceScatter, kAllGather };

struct FakeCall {
  Kind kind = Kind::kAllReduce;
  const std::byte* send = nullptr;
  std::byte* receive = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  int root = 0;
};

struct Meeting {
  std::vector<FakeCall> calls;  // [rank]
  int arrived = 0;
  bool done = false;
};

struct World {
  std::map<std::size_t, std::shared_ptr<Meeting>> meetings;  // [operation]
};

std::map<std::string, std::shared_ptr<World>> worlds;  // [unique ID]
int next_id = 0;

trireme::DType dtype_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8:
      return trireme::DType::kU8;
    case ncclInt64:
      return trireme::DType::kI64;
    case ncclFloat32:
      return trireme::DType::kF32;
    case ncclFloat64:
      return trireme::DType::kF64;
    default:
      std::abort();  // comm/ uses no other
  }
}

std::vector<std::byte> sum(const std::vector<FakeCall>& calls, std::size_t count) {
  const trireme::DType dtype = dtype_of(calls[0].type);
  std::vector<const std::byte*> parts;
  for (const FakeCall& call : calls) parts.push_back(call.send);
  std::vector<std::byte> result(count * trireme::size_of(dtype));
  trireme::sum_in_order(dtype, parts, result.data(), count);
  return result;
}

void put(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0) std::memmove(to, from, bytes);
}

// All ranks have come.
void perform(const std::vector<FakeCall>& calls) {
  const std::size_t count = calls[0].count, ranks = calls.size();
  const std::size_t bytes = count * trireme::size_of(dtype_of(calls[0].type));
  const auto root = static_cast<std::size_t>(calls[0].root);
  switch (calls[0].kind) {
    case Kind::kAllReduce: {
      const auto result = sum(calls, count);
      for (const FakeCall& call : calls) put(call.receive, result.data(), bytes);
      break;
    }
    case Kind::kReduce:
      put(calls[root].receive, sum(calls, count).data(), bytes);
      break;
    case Kind::kBroadcast:
      for (const FakeCall& call : calls) put(call.receive, calls[root].send, bytes);
      break;
    case Kind::kReduceScatter: {
      const auto result = sum(calls, count * ranks);
      for (std::size_t r = 0; r < ranks; ++r)
        put(calls[r].receive, result.data() + r * bytes, bytes);
      break;
    }
    case Kind::kAllGather:
      for (const FakeCall& call : calls) {
        for (std::size_t r = 0; r < ranks; ++r) put(call.receive + r * bytes, calls[r].send, bytes);
      }
      break;
  }
}

}  // namespace

struct ncclComm {
  std::shared_ptr<World> world;
  int rank = 0, size = 1, device = 0;
  std::size_t next_operation = 0;
  int polls_in_progress = 1;  // left
  std::shared_ptr<std::atomic<bool>> aborted = std::make_shared<std::atomic<bool>>(false);
};

namespace {

void meet(const std::shared_ptr<World>& world, std::size_t operation, int rank, int size,
          const FakeCall& call, const std::shared_ptr<std::atomic<bool>>& aborted) {
  std::unique_lock lock(mutex);
  if (*aborted) return;  // its memory may be gone
  auto& slot = world->meetings[operation];
  if (slot == nullptr) slot = std::make_shared<Meeting>();
  const std::shared_ptr<Meeting> meeting = slot;
  meeting->calls.resize(static_cast<std::size_t>(size));
  meeting->calls[static_cast<std::size_t>(rank)] = call;
  if (++meeting->arrived == size) {
    perform(meeting->calls);
    meeting->done = true;
    world->meetings.erase(operation);
    changed.notify_all();
  }
  changed.wait(lock, [&] { return meeting->done || *aborted; });
}

struct Grouped {
  ncclComm_t comm;
  cudaStream_t stream;
  FakeCall call;
};
thread_local std::vector<Grouped> group;

ncclResult_t take(ncclComm_t comm, cudaStream_t stream, const FakeCall& call) {
  group.push_back({comm, stream, call});
  return ncclInProgress;
}

const std::byte* bytes(const void* data) { return static_cast<const std::byte*>(data); }
std::byte* bytes(void* data) { return static_cast<std::byte*>(data); }

}  // namespace

namespace trireme::testing {

void fake_async_error(int device, ncclResult_t error) {
  const std::lock_guard lock(mutex);
  async_errors[device] = error;
}

int num_fake_aborts() { return num_aborts; }

}  // namespace trireme::testing

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 8;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  *lowest = 0;
  *highest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  *stream = new CUstream_st;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const auto state = std::make_shared<EventState>();
  event->state = state;
  give(stream, [state] {
    const std::lock_guard lock(mutex);
    state->done = true;
    state->time = Clock::now();
    changed.notify_all();
  });
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  give(stream, [state = event->state] { await(state); });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(mutex);
  return event->state == nullptr || event->state->done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  await(event->state);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  *ms = std::chrono::duration<float, std::milli>(end->state->time - start->state->time).count();
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, std::size_t size_bytes) {
  if (size_bytes > std::size_t{1} << 40) return cudaErrorMemoryAllocation;
  *data = std::aligned_alloc(256, (size_bytes + 255) / 256 * 256);
  return cudaSuccess;
}

cudaError_t cudaFree(void* data) {
  std::free(data);
  return cudaSuccess;
}

cudaError_t cudaMemset(void* data, int value, std::size_t size_bytes) {
  std::memset(data, value, size_bytes);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t size_bytes, cudaMemcpyKind) {
  std::memcpy(to, from, size_bytes);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void*) {
  attributes->type = cudaMemoryTypeDevice;
  attributes->device = current_device;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return cudaSuccess; }

const char* cudaGetErrorString(cudaError_t) { return "an error of the fake"; }

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote error" : "an error of the fake";
}

const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(mutex);
  std::memset(id->internal, 0, sizeof id->internal);
  const std::string name = "world " + std::to_string(next_id++);
  std::memcpy(id->internal, name.data(), name.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidUsage;
  const std::lock_guard lock(mutex);
  auto& world = worlds[id.internal];
  if (world == nullptr) world = std::make_shared<World>();
  *comm = new ncclComm;
  (*comm)->world = world;
  (*comm)->rank = rank;
  (*comm)->size = size;
  (*comm)->device = current_device;
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const std::lock_guard lock(mutex);
  const auto set = async_errors.find(comm->device);
  *error = ncclSuccess;
  if (comm->polls_in_progress > 0) {
    --comm->polls_in_progress;
    *error = ncclInProgress;
  }
  if (set != async_errors.end() && set->second != ncclSuccess) *error = set->second;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const std::lock_guard lock(mutex);
  comm->polls_in_progress = 1;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  {
    const std::lock_guard lock(mutex);
    *comm->aborted = true;
    ++num_aborts;
    changed.notify_all();
  }
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  group.clear();
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  for (const Grouped& entry : group) {
    ncclComm& comm = *entry.comm;
    {
      const std::lock_guard lock(mutex);
      comm.polls_in_progress = 1;
    }
    give(entry.stream, [world = comm.world, operation = comm.next_operation++, rank = comm.rank,
                        size = comm.size, call = entry.call, aborted = comm.aborted] {
      meet(world, operation, rank, size, call, aborted);
    });
  }
  const bool any = !group.empty();
  group.clear();
  return any ? ncclInProgress : ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  if (op != ncclSum) return ncclInvalidArgument;
  return take(comm, stream, {Kind::kAllReduce, bytes(send), bytes(receive), count, type, 0});
}

ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  if (op != ncclSum) return ncclInvalidArgument;
  return take(comm, stream, {Kind::kReduce, bytes(send), bytes(receive), count, type, root});
}

ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return take(comm, stream, {Kind::kBroadcast, bytes(send), bytes(receive), count, type, root});
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  if (op != ncclSum) return ncclInvalidArgument;
  return take(comm, stream, {Kind::kReduceScatter, bytes(send), bytes(receive), count, type, 0});
}

ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return take(comm, stream, {Kind::kAllGather, bytes(send), bytes(receive), count, type, 0});
}

}  // extern "C"
