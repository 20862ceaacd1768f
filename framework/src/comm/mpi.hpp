// SPDX-License-Identifier: Apache-2.0
// MPI as an object. mpi.h stays inside comm/.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "trireme/communicator.hpp"

namespace trireme {

struct MpiOptions {
  // A larger message travels in pieces of this size. Far below MPI's limit of 2^31 - 1.
  std::size_t max_message_bytes = std::size_t{1} << 20;
  // What travels between nodes in one message: small enough that both directions stay busy.
  std::size_t piece_bytes = std::size_t{64} << 10;
  // An all_reduce between nodes up to this size takes the way of least latency.
  std::size_t gather_limit_bytes = std::size_t{4} << 10;
  // Of one communicator; one more waits for the oldest.
  int max_in_flight = 1024;
  // Whether the ranks of a node share memory; else all data travels as messages.
  bool node_memory = true;
  // Every so many ranks of a host, in their order, count as a node of their own; 0: all of them.
  int ranks_per_node = 0;
};

// MPI from MPI_Init_thread to its end. One a process; made and finalized on the same thread.
//
// Note [One MPI thread]
// After the constructor every MPI call is made by one progress thread (progress.hpp), whichever
// communicator it serves: MPI needs no more than MPI_THREAD_SERIALIZED, operations advance while
// the caller computes, and no call ever blocks, so that operations of different communicators
// cannot wait for each other.
class MpiEnvironment {
 public:
  // Whether a launcher (mpirun, srun) started this process as one of its ranks; looks at the
  // environment only. Where not, a local communicator does, and MPI stays out of the process.
  static bool launched();
  // Where srun started ranks in a way in which MPI will not find them: what to do instead; else "".
  // Looks at the environment only. What does not show there is an EnvironmentError of the
  // constructor.
  static std::string wrong_launcher();
  // Name and version of the MPI library; needs no MPI_Init.
  static std::string library_version();

  // Whether the library is Open MPI, which the network settings are for, and has its part for UCX.
  // To be asked before MPI starts.
  static bool is_open_mpi();
  static bool has_ucx();

  // Collective over all ranks of the launcher. Throws EnvironmentError where MPI lacks what is
  // needed, or where srun started several tasks that do not know of each other.
  explicit MpiEnvironment(const MpiOptions& options = {});
  // Without finalize(): ends the progress thread and leaves MPI as it is, because MPI_Finalize
  // would wait for ranks that may never come. mpirun then ends the job when the process exits.
  ~MpiEnvironment();
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;

  // All ranks. Collective, to be called once; the communicator may outlive the environment, but
  // then throws.
  std::unique_ptr<Communicator> world();

  // Why the ranks of a node do not share memory; empty: they do. Known after world().
  const std::string& without_node_memory() const;
  const std::string& host() const;          // MPI's name of this node
  const std::string& thread_level() const;  // "MPI_THREAD_MULTIPLE" or "MPI_THREAD_SERIALIZED"
  // What Open MPI chose to carry messages: "ob1 (self, tcp, vader)", "ucx"; "" under another MPI.
  const std::string& transport() const;

  // Collective: the regular end, for when all ranks have agreed that all is well. All requests are
  // complete. Communicators must not be used afterwards.
  void finalize();

  // Ends all processes of the job; mpirun returns exit_code. From any thread, at any time.
  [[noreturn]] void abort(int exit_code);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
