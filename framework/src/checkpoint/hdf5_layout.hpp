// SPDX-License-Identifier: Apache-2.0
// Lets HDF5 decide where everything lies in a checkpoint file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "checkpoint/archive.hpp"

namespace trireme {

// Note [HDF5 lays out, we fill]
// HDF5 never sees the disk, nor the arrays: when a write or close of its own file driver fails (no
// space left), objects of the broken file stay in the library and its exit handler dereferences
// them: SIGSEGV, exit code 139 instead of the error. And a copy through it is one rank's work. So
// it makes a file in memory (its core driver) with every dataset in it, contiguous, its place taken
// but nothing written, and tells where each one's bytes are to be. What it has written by then is
// the head: all its own structures, kept together by a metadata block that is large enough. Head
// and arrays are the file; whoever has an array copies it to its place, and the bytes go to disk by
// write(2), each failure an ordinary CheckpointError.
// Rejected: a file driver of our own, whose struct changes from one HDF5 release to the next, and
// reserving the space first, which does not help against EIO.
struct FileLayout {
  std::vector<std::byte> head;       // of the file; zero where the places below lie in it
  std::vector<std::size_t> offsets;  // [array], where its bytes begin
  std::size_t step_offset = 0;       // of a 64-bit integer
  std::size_t state_offset = 0;      // of state_bytes bytes
  std::size_t size_bytes = 0;        // of the file
};

// state_bytes > 0: the room for the state text. CheckpointError for a name that HDF5 would change,
// or that comes twice.
FileLayout lay_out_file(const std::vector<ArrayInfo>& arrays, std::size_t state_bytes);

}  // namespace trireme
