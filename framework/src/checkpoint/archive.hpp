// SPDX-License-Identifier: Apache-2.0
// One checkpoint: named arrays and one state text, in one HDF5 file inside a directory that is committed or absent.
// No torch here. Called by one rank (0); nothing in it communicates.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/communicator.hpp"

namespace trireme {

// Logical shape, contiguous (row-major) bytes. name is the HDF5 path: "parameters/layer1.0.conv1.weight".
struct ArrayInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;  // {} is a scalar
  std::size_t size_bytes() const;
};

// Writes CHECKPOINTS/step-00000120/ as a whole or not at all: temporary directory, model.h5 and manifest.json with the
// XXH3-128 of each file, fsync of files and directories, rename. A destructor without commit() removes the temporary.
// Throws CheckpointError (errno, path, sizes).
class CheckpointWriter {
 public:
  CheckpointWriter(std::filesystem::path checkpoints, std::int64_t step);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  void add(const ArrayInfo& info, std::span<const std::byte> data);
  // state: JSON text of the training state, stored as dataset "state". Returns the committed directory; `latest` then
  // names it (a symbolic link, replaced atomically). Committing a step that exists already replaces it.
  std::filesystem::path commit(const std::string& state);
  std::int64_t size_bytes() const;  // of all files, after commit

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Verifies the manifest's hashes before it parses anything. Throws CheckpointError that says which file fails how.
class CheckpointReader {
 public:
  explicit CheckpointReader(const std::filesystem::path& directory);
  ~CheckpointReader();
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;

  std::int64_t step() const;
  const std::string& state() const;
  const std::vector<ArrayInfo>& arrays() const;
  const ArrayInfo* find(const std::string& name) const;  // nullptr where there is none
  void read(const ArrayInfo& info, std::span<std::byte> data) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Committed checkpoints, oldest first; temporary and foreign directories are not among them.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& checkpoints);

// The newest one that verifies. For each newer one that does not, warn is called with the reason. If there are checkpoints
// and none verifies: CheckpointError. If there are none: nullopt.
std::optional<std::filesystem::path> find_newest_good(const std::filesystem::path& checkpoints,
                                                      const std::function<void(const std::string&)>& warn);

// `best` becomes a link to this checkpoint.
void mark_best(const std::filesystem::path& checkpoints, std::int64_t step);

// Removes all but the newest `keep` and the best, oldest first.
void rotate_checkpoints(const std::filesystem::path& checkpoints, std::int64_t keep);

}  // namespace trireme
