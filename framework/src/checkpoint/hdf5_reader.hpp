// SPDX-License-Identifier: Apache-2.0
// Reads model.h5 after its hash was verified; a file that is sound HDF5 but not Trireme's is an
// error still.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/archive.hpp"
#include "checkpoint/hdf5_call.hpp"

namespace trireme {

class Hdf5Reader {
 public:
  // Reads marks, state and the list of arrays. Throws CheckpointError that names the file.
  explicit Hdf5Reader(const std::filesystem::path& path);

  std::int64_t format() const { return format_; }
  std::int64_t step() const { return step_; }
  const std::string& state() const { return state_; }
  const std::vector<ArrayInfo>& arrays() const { return arrays_; }  // sorted by name
  void read(const ArrayInfo& info, std::span<std::byte> data) const;

 private:
  std::int64_t read_attribute(const char* attribute) const;
  std::int64_t read_step() const;
  std::string read_state() const;
  void collect(const std::string& group, int depth);
  ArrayInfo describe(const Hdf5Id& dataset, const std::string& name) const;

  std::string path_;
  Hdf5Id file_;
  std::int64_t format_ = 0, step_ = 0;
  std::string state_;
  std::vector<ArrayInfo> arrays_;
};

}  // namespace trireme
