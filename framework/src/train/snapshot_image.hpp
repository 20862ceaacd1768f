// SPDX-License-Identifier: Apache-2.0
// A training state as the bytes of its checkpoint file, in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/archive.hpp"
#include "train/snapshot.hpp"

namespace trireme {

// Note [The image]
// A save is a copy. The model.h5 of a run is laid out once, in memory that the ranks of the first
// node share and keep for the run, and each of them puts what it has straight to its place: of
// every bucket its part of the parameters, which the node shares, and of the optimizer's state,
// which is its own. Nothing is gathered, and no memory is taken: the pages were touched before. (On
// GPUs, and where ranks cannot share memory, a node of FlatParameters is one rank, and rank 0 has
// all.) What rank 0's node does not have travels to rank 0 bucket by bucket: optimizer state that
// is sharded over several nodes, and what compression owes.
class SnapshotImage {
 public:
  // Collective; takes the memory. All must outlive this. state_bytes, rank 0's: room for the state
  // text. SharedError where there is not enough memory.
  SnapshotImage(const Replica& replica, Learner learner, std::size_t state_bytes,
                Communicator& control);

  // Collective. Proves that parameters and floating buffers are bitwise equal on all ranks
  // (SharedError where not), and makes this the file of the state as it is; when it returns on rank
  // 0, all ranks have done their part. state: rank 0's.
  void fill(std::int64_t step, const std::string& state);

  std::size_t size_bytes() const { return image_bytes_; }  // of model.h5
  // Rank 0's.
  std::span<const std::byte> bytes() const { return {image_.data(), image_.size_bytes()}; }

 private:
  struct Run;
  template <class Visit>
  void visit_runs(const Visit& visit) const;
  void lay_out(std::vector<ArrayInfo> arrays, std::size_t state_bytes);
  std::vector<ArrayInfo> arrays();
  bool has_optimizer() const;
  void require_equal_state(std::int64_t step) const;
  void copy_own();
  void copy_run(const Run& run, const at::Tensor& flat, std::int64_t flat_begin,
                const std::string& path);
  void copy_whole(const std::string& path, const at::Tensor& tensor);
  std::byte* place_of(const std::string& path);

  const Replica& replica_;
  Learner learner_;
  Communicator& control_;
  const FlatParameters& flat_;
  Placement sharing_;                           // of the ranks that share parameters
  std::unique_ptr<Communicator> sharers_;       // this rank's among them
  std::unique_ptr<Communicator> node_;          // the ranks that share memory with this one
  std::unique_ptr<ArchiveLayout> layout_;       // rank 0's
  std::map<std::string, std::size_t> offsets_;  // [path], of the arrays in the image
  std::size_t image_bytes_ = 0;
  Buffer image_;  // the first node's
};

}  // namespace trireme
