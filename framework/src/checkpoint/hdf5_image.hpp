// SPDX-License-Identifier: Apache-2.0
// Builds the bytes of one checkpoint file in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "checkpoint/archive.hpp"

namespace trireme {

// Format of model.h5 and of the manifest. A reader takes this one and older ones.
inline constexpr std::int64_t kCheckpointFormat = 1;

// Note [Image first]
// When a write or close of HDF5's own file driver fails (no space left), objects of the broken file
// stay in the library and its exit handler dereferences them: SIGSEGV, exit code 139 instead of the
// error. So HDF5 never sees the disk: it builds the file in memory (its core driver without backing
// store), and the bytes go to disk by write(2), hashed on their way, each failure an ordinary
// CheckpointError. The price is one more copy of the checkpoint in memory while it is written.
// Rejected: a file driver of our own, whose struct changes from one HDF5 release to the next, and
// reserving the space first, which does not help against EIO.
class Hdf5Image {
 public:
  explicit Hdf5Image(std::int64_t step);
  ~Hdf5Image();
  Hdf5Image(const Hdf5Image&) = delete;
  Hdf5Image& operator=(const Hdf5Image&) = delete;

  void add_array(const ArrayInfo& info, std::span<const std::byte> data);
  // A scalar UTF-8 string of fixed length. text is not empty.
  void add_text(const std::string& name, const std::string& text);
  // The finished file; valid while the image lives. Nothing may be added afterwards.
  std::span<const std::byte> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
