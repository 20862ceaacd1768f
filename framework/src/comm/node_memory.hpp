// SPDX-License-Identifier: Apache-2.0
// Read-only bytes that exist once a node, however many ranks it has: for data sets whose files have
// to be decoded (gzip, tar of images) and are too large to decode and keep in every rank.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "comm/memory_file.hpp"
#include "trireme/communicator.hpp"

namespace trireme {

// Bytes mapped read-only; a write to them is a SIGSEGV. Immutable, so that any thread may read.
// Unmapped by the destructor; the memory goes back when the last rank of the node has let go.
class NodeBytes {
 public:
  explicit NodeBytes(Mapping mapping) : mapping_(std::move(mapping)) {}

  std::span<const std::byte> bytes() const { return {mapping_.data(), mapping_.size_bytes()}; }

 private:
  Mapping mapping_;
};

// The memory while the node's rank 0 fills it.
class NodeWriter {
 public:
  virtual ~NodeWriter() = default;
  // Makes the memory this large and returns all of it. What was written before stays, new bytes are
  // zero, spans of earlier calls are void. Pages are taken from the machine here, not at first
  // touch. Throws EnvironmentError that names the size where the machine has no more.
  virtual std::span<std::byte> resize(std::size_t size_bytes) = 0;
};

// Collective over `node`, the ranks of one node (Communicator::split_by_node); blocking. Rank 0
// calls `fill`, the others wait for it and map what it made; only rank 0 needs to know the size.
// The memory has no name: nothing stays behind, even after kill -9.
// Where fill throws, or a rank cannot map the memory, no rank hangs: all throw a SharedError
// (shared_error.hpp) with the code and text of the error. Beware of the time-out of `node`: it has
// to cover the filling.
std::shared_ptr<const NodeBytes> share_on_node(Communicator& node,
                                               const std::function<void(NodeWriter&)>& fill);

}  // namespace trireme
