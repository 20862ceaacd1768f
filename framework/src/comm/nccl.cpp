// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl.hpp"

#include <algorithm>
#include <utility>

#include "comm/call.hpp"
#include "comm/nccl_link.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return ncclUint8;
    case DType::kI64:
      return ncclInt64;
    case DType::kF32:
      return ncclFloat32;
    case DType::kF64:
      return ncclFloat64;
  }
  TRIREME_ASSERT(false, "not a dtype");
}

class NcclOperation : public Operation {
 public:
  NcclOperation(std::shared_ptr<NcclLink> link, std::shared_ptr<const NcclFlight> flight)
      : link_(std::move(link)), flight_(std::move(flight)) {}

  bool test() override {
    link_->throw_if_failed();
    return flight_->done.reached();
  }
  void wait() override {
    link_->throw_if_failed();
    flight_->done.hold_back(kComputeStream);
  }
  // What the memory is used for next is given to the compute stream.
  void abandon() noexcept override {
    try {
      flight_->done.hold_back(kComputeStream);
    } catch (const CommError&) {
      // The device has failed: the next call says so.
    }
  }
  std::chrono::steady_clock::time_point completed_at() const override {
    flight_->done.wait();
    const auto now = std::chrono::steady_clock::now();
    using Ms = std::chrono::duration<float, std::milli>;
    const DeviceMoment& reference = *flight_->reference;
    const Ms since(flight_->done.ms_since(reference.event));
    // The host has seen the reference late, never early.
    return std::min(now,
                    reference.time + std::chrono::duration_cast<std::chrono::nanoseconds>(since));
  }

 private:
  const std::shared_ptr<NcclLink> link_;
  const std::shared_ptr<const NcclFlight> flight_;
};

// The NCCL calls of one operation on data of one type.
struct Calls {
  Span data;
  ncclComm_t comm;
  cudaStream_t stream;

  std::byte* at(std::size_t element) const {
    return static_cast<std::byte*>(data.data) + element * size_of(data.dtype);
  }
  ncclDataType_t type() const { return nccl_type(data.dtype); }
};

using Offsets = std::vector<std::size_t>;  // [size + 1]

// Calls body(rank, first element, count) for each owner that has elements, up to the first failure.
template <class Body>
ncclResult_t for_each_part(const Offsets& offsets, const Body& body) {
  for (std::size_t rank = 0; rank + 1 < offsets.size(); ++rank) {
    const std::size_t count = offsets[rank + 1] - offsets[rank];
    if (count == 0) continue;
    const ncclResult_t result = body(static_cast<int>(rank), offsets[rank], count);
    if (result != ncclSuccess && result != ncclInProgress) return result;
  }
  return ncclSuccess;
}

// Equal parts have calls of their own, which move less; others go part by part.
bool equal_parts(const Offsets& offsets) {
  for (std::size_t rank = 1; rank + 1 < offsets.size(); ++rank) {
    if (offsets[rank + 1] - offsets[rank] != offsets[1]) return false;
  }
  return true;
}

ncclResult_t reduce_scatter(const Calls& on, const Offsets& offsets, int rank) {
  if (equal_parts(offsets)) {
    return ncclReduceScatter(on.at(0), on.at(offsets[static_cast<std::size_t>(rank)]), offsets[1],
                             on.type(), ncclSum, on.comm, on.stream);
  }
  return for_each_part(offsets, [&](int owner, std::size_t first, std::size_t count) {
    return ncclReduce(on.at(first), on.at(first), count, on.type(), ncclSum, owner, on.comm,
                      on.stream);
  });
}

ncclResult_t all_gather(const Calls& on, const Offsets& offsets, int rank) {
  if (equal_parts(offsets)) {
    return ncclAllGather(on.at(offsets[static_cast<std::size_t>(rank)]), on.at(0), offsets[1],
                         on.type(), on.comm, on.stream);
  }
  return for_each_part(offsets, [&](int owner, std::size_t first, std::size_t count) {
    return ncclBroadcast(on.at(first), on.at(first), count, on.type(), owner, on.comm, on.stream);
  });
}

ncclResult_t enqueue(const Call& call, const Calls& on, int rank) {
  if (call.data.count == 0) return ncclSuccess;
  switch (call.kind) {
    case Collective::kAllReduce:
    case Collective::kNodeReduceScatter:  // each rank is a node, and has all parts
      return ncclAllReduce(on.at(0), on.at(0), call.data.count, on.type(), ncclSum, on.comm,
                           on.stream);
    case Collective::kReduceScatter:
      return reduce_scatter(on, call.offsets, rank);
    case Collective::kAllGather:
      return all_gather(on, call.offsets, rank);
    case Collective::kBroadcast:
      return ncclBroadcast(on.at(0), on.at(0), call.data.count, on.type(), call.root, on.comm,
                           on.stream);
    case Collective::kExchange:
    case Collective::kBarrier:
      break;  // the host's
  }
  TRIREME_ASSERT(false, "no operation of the device");
}

void require_on_device(const Call& call, int device) {
  if (call.data.count == 0) return;
  cudaPointerAttributes attributes{};
  check_cuda(cudaPointerGetAttributes(&attributes, call.data.data), "cudaPointerGetAttributes");
  TRIREME_ASSERT(attributes.type == cudaMemoryTypeDevice && attributes.device == device,
                 describe(call) + ": data is not in the memory of GPU " + std::to_string(device));
}

Buffer allocate_on(int device, std::size_t size_bytes) {
  if (size_bytes == 0) return {};
  check_cuda(cudaSetDevice(device), "cudaSetDevice");
  void* data = nullptr;
  const cudaError_t code = cudaMalloc(&data, size_bytes);
  if (code == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // else the next check finds it again
    throw Error(ExitCode::kInternal,
                "cannot allocate " + std::to_string(size_bytes) + " bytes on GPU " +
                    std::to_string(device) +
                    ": out of memory; use more ranks, a smaller model or a smaller batch");
  }
  check_cuda(code, "cudaMalloc");
  Buffer buffer(data, size_bytes, [](void* memory, std::size_t) {
    static_cast<void>(cudaFree(memory));  // fails where the device is gone only
  });
  check_cuda(cudaMemset(data, 0, size_bytes), "cudaMemset");
  return buffer;
}

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(std::unique_ptr<Communicator> host, const NcclOptions& options)
      : host_(std::move(host)), link_(std::make_shared<NcclLink>(*host_, options)) {
    host_->set_timeout(options.timeout);
  }

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  std::string_view kind() const override { return "nccl"; }
  // GPUs share no memory: each is a node of its own.
  Placement placement() const override { return {.num_nodes = size(), .node = rank()}; }

  Request all_reduce(Span data) override {
    return post({.kind = Collective::kAllReduce, .data = data});
  }
  Request reduce_scatter(Span data, std::span<const std::size_t> offsets) override {
    return post({.kind = Collective::kReduceScatter,
                 .data = data,
                 .offsets = {offsets.begin(), offsets.end()}});
  }
  Request node_reduce_scatter(Span data, std::span<const std::size_t> offsets,
                              const Wire& wire) override {
    TRIREME_ASSERT(wire.type == WireType::kSame, "NCCL's sums travel at full width");
    return post({.kind = Collective::kNodeReduceScatter,
                 .data = data,
                 .offsets = {offsets.begin(), offsets.end()}});
  }
  Request all_gather(Span data, std::span<const std::size_t> offsets) override {
    return post({.kind = Collective::kAllGather,
                 .data = data,
                 .offsets = {offsets.begin(), offsets.end()}});
  }
  Request broadcast(Span data, int root) override {
    return post({.kind = Collective::kBroadcast, .data = data, .root = root});
  }
  Request mark() override { return Request(std::make_shared<NcclOperation>(link_, link_->mark())); }

  std::vector<std::string> exchange(std::string_view bytes) override {
    link_->throw_if_failed();
    return host_->exchange(bytes);
  }
  void barrier() override {
    link_->throw_if_failed();
    host_->barrier();
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    return std::make_unique<NcclCommunicator>(host_->split(color, key), link_->options());
  }
  std::unique_ptr<Communicator> split_by_node() override {
    return std::make_unique<NcclCommunicator>(host_->split_by_node(), link_->options());
  }

  Buffer allocate(std::size_t size_bytes) override {
    return allocate_on(link_->device(), size_bytes);
  }
  Buffer allocate_shared(std::size_t size_bytes) override { return allocate(size_bytes); }
  void set_timeout(std::chrono::milliseconds timeout) override {
    host_->set_timeout(timeout);
    link_->set_timeout(timeout);
  }

 private:
  Request post(Call call) {
    call.sequence = sequence_++;
    check_arguments(call, size());
    require_on_device(call, link_->device());
    const std::string what = describe(call) + " on " + describe_rank(rank(), size());
    auto flight = link_->post(what, [&](ncclComm_t comm, cudaStream_t stream) {
      return enqueue(call, {call.data, comm, stream}, rank());
    });
    return Request(std::make_shared<NcclOperation>(link_, std::move(flight)));
  }

  const std::unique_ptr<Communicator> host_;
  const std::shared_ptr<NcclLink> link_;
  std::uint64_t sequence_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<Communicator> host,
                                                     const NcclOptions& options) {
  return std::make_unique<NcclCommunicator>(std::move(host), options);
}

}  // namespace trireme
