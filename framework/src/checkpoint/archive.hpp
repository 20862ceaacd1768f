// SPDX-License-Identifier: Apache-2.0
// One checkpoint: named arrays and one state text, in one HDF5 file inside a directory that is
// committed or absent (framework/docs/CHECKPOINT.md). No torch here. Called by one rank (0);
// nothing in it communicates. One writer at a time a directory (RunDirectory's lock sees to it); a
// writer and readers may work in different threads. All of it throws CheckpointError with path,
// errno and sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/communicator.hpp"

namespace trireme {

// Logical shape, contiguous (row-major) bytes. name is the HDF5 path:
// "parameters/layer1.0.conv1.weight". It has a group, and no part of it is empty, "." or "..".
struct ArrayInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;  // {} is a scalar

  std::size_t size_bytes() const;
  bool operator==(const ArrayInfo&) const = default;
};

// Writes CHECKPOINTS/step-00000120/ as a whole or not at all: temporary directory, model.h5 and
// manifest.json with the XXH3-128 of it, fsync of files and directories, rename. A destructor
// without commit() removes the temporary. Until commit() the writer holds a copy of all arrays in
// memory (Note [Image first] in hdf5_image.hpp).
class CheckpointWriter {
 public:
  // Makes the directory CHECKPOINTS where it is missing (not its parents). step >= 0.
  CheckpointWriter(std::filesystem::path checkpoints, std::int64_t step);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // data is copied before the call returns. A name may be added once.
  void add(const ArrayInfo& info, std::span<const std::byte> data);
  // state: JSON text of the training state, not empty, stored as dataset "state". Returns the
  // committed directory; `latest` then names it (a symbolic link, replaced atomically). Committing
  // a step that exists already replaces it (Note [Replacing a step] in directory.hpp). Called once.
  std::filesystem::path commit(const std::string& state);
  std::int64_t size_bytes() const;  // of all files, after commit

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Verifies the manifest's hash before it parses anything, then the structure. Errors say which file
// fails how.
class CheckpointReader {
 public:
  // directory may be a link, such as `latest`.
  explicit CheckpointReader(const std::filesystem::path& directory);
  ~CheckpointReader();
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;

  std::int64_t step() const;
  const std::string& state() const;
  const std::vector<ArrayInfo>& arrays() const;          // sorted by name
  const ArrayInfo* find(const std::string& name) const;  // nullptr where there is none
  // data has info.size_bytes() bytes; info is one of arrays().
  void read(const ArrayInfo& info, std::span<std::byte> data) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Committed checkpoints, oldest first; temporary and foreign names are not among them. Empty for a
// missing directory.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& checkpoints);

// The newest one that verifies. For each newer one that does not, warn is called with the reason.
// If there are checkpoints and none verifies: CheckpointError. If there are none: nullopt.
std::optional<std::filesystem::path> find_newest_good(
    const std::filesystem::path& checkpoints, const std::function<void(const std::string&)>& warn);

// `best` becomes a link to this checkpoint, which must exist.
void mark_best(const std::filesystem::path& checkpoints, std::int64_t step);

// Removes all but the newest `keep` (>= 1) and the best, oldest first. Counts from `latest`
// backwards: checkpoints of later steps, which a resume passed over because they were damaged,
// neither count nor go. Each one is renamed to a temporary name before it is deleted, so a kill in
// between leaves no half one.
void rotate_checkpoints(const std::filesystem::path& checkpoints, std::int64_t keep);

}  // namespace trireme
