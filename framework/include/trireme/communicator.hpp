// SPDX-License-Identifier: Apache-2.0
// The collectives that training needs, over a group of ranks. Four kinds exist: local (one rank),
// threads (ranks are threads of one process: tests), MPI, and NCCL, whose data is memory of GPUs.
// No torch, MPI or CUDA header here.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme {

enum class DType : std::uint8_t { kU8, kI64, kF32, kF64 };

std::size_t size_of(DType dtype);       // bytes an element
std::string_view name_of(DType dtype);  // "u8", "i64", "f32", "f64"

// A typed view of memory that the caller owns and keeps alive and untouched until the request is
// complete.
struct Span {
  void* data = nullptr;
  std::size_t count = 0;  // elements
  DType dtype = DType::kF32;

  std::size_t size_bytes() const { return count * size_of(dtype); }
};

// Progress of one posted operation. Implementations live with their communicator.
class Operation {
 public:
  virtual ~Operation() = default;
  // True once complete; throws the CommError that the operation failed with.
  virtual bool test() = 0;
  // Blocks, at most the communicator's time-out; throws what the operation failed with. On a GPU it
  // is the device that waits: what the compute stream is given afterwards finds the result, and the
  // host goes on.
  virtual void wait() = 0;
  // Waits like wait() until nothing touches the memory any more, and drops the outcome.
  virtual void abandon() noexcept = 0;
  // When the operation completed, by the steady clock; valid once test() has been true or wait()
  // has returned. Blocks until the device is there.
  virtual std::chrono::steady_clock::time_point completed_at() const = 0;
};

// Handle of a posted operation; a default-made one is complete. Destroying or overwriting an
// incomplete request waits for it, so that the memory stays valid; only wait() and test() tell
// whether it succeeded.
class Request {
 public:
  Request() = default;
  explicit Request(std::shared_ptr<Operation> operation) : operation_(std::move(operation)) {}
  Request(Request&&) noexcept = default;
  Request& operator=(Request&& other) noexcept;
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  ~Request();

  bool test();  // true once complete
  void wait();
  // The clock's epoch for a default-made request.
  std::chrono::steady_clock::time_point completed_at() const;

 private:
  std::shared_ptr<Operation> operation_;
};

// Memory from Communicator::allocate: zeroed, aligned to at least 64 bytes, given back by its
// destructor. It may outlive the communicator.
class Buffer {
 public:
  using Free = std::function<void(void*, std::size_t)>;
  Buffer() = default;
  Buffer(void* data, std::size_t size_bytes, Free free);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t size_bytes() const { return size_bytes_; }

 private:
  void release() noexcept;

  void* data_ = nullptr;
  std::size_t size_bytes_ = 0;
  Free free_;
};

// Where a rank stands among those of its group with which it shares memory: its node. A rank that
// shares memory with none (another node each, or MpiOptions::node_memory switched off) is a node of
// its own. Nodes are numbered by their lowest ranks, local ranks in the order of ranks.
struct Placement {
  int num_nodes = 1;
  int node = 0;            // 0 .. num_nodes-1
  int local_rank = 0;      // 0 .. local_size-1
  int local_size = 1;      // ranks of this node
  int max_local_size = 1;  // of the node that has most
};

// Of `offsets` ([shards+1], ascending), the part of one of local_size ranks that share the shards
// in order: local rank l has those from ceil(l * shards / local_size) on. With more ranks than
// shards some parts are empty.
struct Part {
  std::size_t begin = 0, end = 0;  // elements
  std::size_t size() const { return end - begin; }
};
Part part_of(std::span<const std::size_t> offsets, int local_rank, int local_size);
// The parts of all local ranks: [local_size + 1], where each begins, and the end.
std::vector<std::size_t> offsets_of_parts(std::span<const std::size_t> offsets, int local_size);
// Of this rank's part in a node_reduce_scatter, what it sums for all nodes: each of its shards is
// cut into one cell a node, at multiples of 64 bytes. Ascending; none is empty.
std::vector<Part> summed_parts(std::span<const std::size_t> offsets, const Placement& placement,
                               DType dtype);

// How sums travel between nodes. kF16 and kBF16 halve the bytes of f32 data: each node's partial
// sum is rounded once (to nearest even), these are summed in f32, and the sum is rounded once more,
// so that all nodes get the same, whoever has summed it. Finite values beyond the type's range
// become its largest.
enum class WireType : std::uint8_t { kSame, kF16, kBF16 };

// What a rounding to the wire's type lost, in elements.
struct WireCounts {
  std::uint64_t saturated = 0;    // finite, beyond the type's range
  std::uint64_t underflowed = 0;  // not zero, became zero
};

struct Wire {
  WireType type = WireType::kSame;
  // Error feedback (Seide et al. 2014; on both sides as Tang et al. 2019): what rounding took off
  // is added the next time. Null: none.
  float* residual = nullptr;      // of the node's partial sum; [this rank's part]
  float* sum_residual = nullptr;  // of the sum; [summed_parts(), one after the other]
  WireCounts* counts = nullptr;   // added to; null: nobody counts
};

// Semantics common to all operations:
//  * Collective: every rank of the group calls the same operations in the same order on the same
//    communicator, with the same count, dtype, offsets and root. Where calls differ, most often a
//    CommError says how; between nodes a difference that leaves every message's length as it is
//    (another dtype of equal size, another root) is not found, and the result is garbage. Different
//    communicators are independent: their operations may be posted in different orders on different
//    ranks without deadlock.
//  * Asynchronous ones return at once and make progress without the caller. Between nodes
//    a communicator that has very many (1024) in flight waits for its oldest before the next.
//  * Sums are taken element by element in the dtype of the data, in rank order within a node
//    ((x0 + x1) + x2) ..., and so over the nodes' sums: the result is bitwise the same on every
//    rank, from run to run, and for every kind of communicator with the same placement of ranks.
//    Except for NCCL, whose order is its own: the same on every rank, and from run to run on the
//    same GPUs and links.
//  * In place. count 0 is legal. Counts beyond 2^31 are split inside.
//  * Errors: wrong arguments (dtype, offsets, root) are an InternalError at the call. CommError
//    names operation, sequence number, count, dtype and rank. After one the ranks no longer agree
//    on what comes next, so that every later call, on every communicator of the process, throws
//    CommError, too: the process is expected to end.
//  * A communicator may be used from several threads if their calls are serialised by the caller;
//    requests may be waited for on any thread.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;  // 0 .. size()-1
  virtual int size() const = 0;
  virtual std::string_view kind() const = 0;  // "local", "threads", "mpi", "nccl"
  virtual Placement placement() const = 0;

  // Every rank's data becomes the sum over ranks. dtype f32, f64 or i64.
  [[nodiscard]] virtual Request all_reduce(Span data) = 0;
  // offsets: [size()+1], ascending from 0 to data.count; rank r owns [offsets[r], offsets[r+1]).
  // Afterwards the owner's part holds the sum over ranks; the rest of data is unspecified. offsets
  // are copied before the call returns. dtype f32, f64 or i64.
  [[nodiscard]] virtual Request reduce_scatter(Span data, std::span<const std::size_t> offsets) = 0;
  // Afterwards every node has the whole sum over ranks, each of its ranks the part that part_of()
  // gives it; the rest of data is unspecified. offsets: [shards+1], ascending from 0 to data.count,
  // any number of shards. A wire type other than kSame wants f32. wire's memory stays the caller's
  // and untouched until the request is complete. dtype f32, f64 or i64.
  [[nodiscard]] virtual Request node_reduce_scatter(Span data, std::span<const std::size_t> offsets,
                                                    const Wire& wire) = 0;
  // Afterwards every rank's data holds every owner's part. Offsets as of reduce_scatter. Any
  // dtype. Ranks of a node may pass the same memory (allocate_shared), then all of them: parts of
  // the node stay where they are, those of other nodes are written by one of its ranks each, and
  // this rank may read all once its request is complete.
  [[nodiscard]] virtual Request all_gather(Span data, std::span<const std::size_t> offsets) = 0;
  // Afterwards every rank's data equals root's. Any dtype.
  [[nodiscard]] virtual Request broadcast(Span data, int root) = 0;

  // Complete when the device has done what it was given so far (on CPUs at once): tells when that
  // was. Not collective.
  [[nodiscard]] virtual Request mark();

  // Blocking; result [rank] holds what each rank gave, lengths may differ (0 included). For
  // control, not for bulk.
  virtual std::vector<std::string> exchange(std::string_view bytes) = 0;
  // Blocking. Returns when every rank has called it.
  virtual void barrier() = 0;

  // Collective, blocking, for setup: one at a time in a process. Ranks of equal colour form a
  // group, ordered by (key, rank). The group has its own order of operations, its own time-out
  // (at first this communicator's), and may outlive this communicator.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;
  // Collective as split(). The ranks of this rank's node, in rank order; where a machine's ranks
  // cannot share memory, so that placement() has each as a node of its own, those of the machine.
  virtual std::unique_ptr<Communicator> split_by_node() = 0;

  // Memory this communicator moves best: under MPI shared with the ranks of the node, where they
  // can; under NCCL of the GPU, where the host cannot touch it. Not collective. Throws Error that
  // names the size where the machine has no more.
  virtual Buffer allocate(std::size_t size_bytes) = 0;
  // Collective, blocking, for setup. The same memory for all ranks of this rank's node; given back
  // when the last of them has destroyed its buffer. Who writes what, and when the others may read
  // it, is for the callers to agree.
  virtual Buffer allocate_shared(std::size_t size_bytes) = 0;

  // What this process has sent to other nodes so far, through all communicators: of MPI only.
  virtual std::uint64_t bytes_sent() const { return 0; }

  // Bounds each wait for an operation that starts from now on. Zero or less: for ever, the default
  // of all kinds but threads.
  virtual void set_timeout(std::chrono::milliseconds timeout) = 0;
};

}  // namespace trireme
