// SPDX-License-Identifier: Apache-2.0
// Communication between GPUs. nccl.h and cuda_runtime_api.h stay inside comm/ and device/; in a
// build without CUDA no_nccl.cpp stands for nccl.cpp and its parts.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "trireme/communicator.hpp"

namespace trireme {

struct NcclOptions {
  int device = 0;                       // of this rank: nobody else's in the group
  std::chrono::milliseconds timeout{};  // at first; zero or less: none
  // Told what happened, once, on a thread of the communicator, when an operation in flight has
  // failed or is late. A program ends there: a stream that waits for the operation goes on with
  // wrong numbers when it returns.
  std::function<void(const std::string&)> on_failure = {};
};

// Collective over `host`, whose ranks become the group; it carries the unique ID, exchange(),
// barrier() and the splits. Its data is memory of the GPU, as allocate() and torch give it.
//
// Differs from the other kinds in two ways, which communicator.hpp names: sums have NCCL's order,
// and waiting is the device's.
//
// Note [Streams]
// Operations run on a stream of their own, of high priority, in the order of their posting. Posting
// lets that stream wait for what the compute stream has been given so far; Request::wait() lets the
// compute stream wait for the operation. Both are events: the host goes on at once, and reads
// results as it reads any tensor, by a copy on the compute stream. That stream is CUDA's default
// stream, which torch uses unless it is told otherwise, and nobody tells it here.
//
// The first operation of a group connects its ranks and keeps the host until that is done: groups
// should first be used in the same order on all ranks.
//
// Note [No wait without an end]
// NCCL runs in its non-blocking mode, and a thread looks at each group ten times a second: an error
// that NCCL reports, or an operation that has not ended within the time-out after the device was
// ready for it, is told to on_failure, the group is aborted (which ends its kernels, and so whoever
// waits for a stream), and all later calls throw CommError.
//
// Throws CommError where the group does not come about within the time-out.
std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<Communicator> host,
                                                     const NcclOptions& options);

// Which NCCL this process runs, for --version and to prove that it is one. All empty in a build
// without CUDA.
struct NcclLibrary {
  std::string header;      // "2.28.9": the version that Trireme was built with
  std::string running;     // the version that is loaded
  std::string path;        // the file that Trireme's calls go to
  std::string torch_path;  // the file that LibTorch's calls go to; empty: LibTorch is not there
};
NcclLibrary nccl_library();

// EnvironmentError that names versions and files where they are not one library. torch_header: the
// version that LibTorch was built with.
void require_one_nccl(const NcclLibrary& library, const std::string& torch_header);

}  // namespace trireme
