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
#include <set>
#include <span>
#include <string>
#include <vector>

#include "trireme/communicator.hpp"

namespace trireme {

struct FileLayout;

// Logical shape, contiguous (row-major) bytes. name is the HDF5 path:
// "parameters/layer1.0.conv1.weight". It has a group, and no part of it is empty, "." or "..".
struct ArrayInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;  // {} is a scalar

  std::size_t size_bytes() const;
  bool operator==(const ArrayInfo&) const = default;
};

// Where everything lies in the model.h5 of these arrays (Note [HDF5 lays out, we fill] in
// hdf5_layout.hpp). A run lays its file out once, keeps it in memory as an image, and fills that
// again for each checkpoint.
class ArchiveLayout {
 public:
  // arrays: each name once. state_bytes: room for the training state's text.
  ArchiveLayout(std::vector<ArrayInfo> arrays, std::size_t state_bytes);
  ~ArchiveLayout();
  ArchiveLayout(ArchiveLayout&&) noexcept;
  ArchiveLayout& operator=(ArchiveLayout&&) noexcept;

  const std::vector<ArrayInfo>& arrays() const { return arrays_; }
  std::size_t size_bytes() const;                  // of model.h5
  std::size_t offset_of(std::size_t array) const;  // where its bytes belong in the image

  // image: size_bytes() zero bytes. They become a model.h5 in which every array is zero.
  void begin(std::span<std::byte> image) const;
  // The image, with all arrays in their places, is then the model.h5 of this step. state: JSON text
  // of the training state, not empty, no longer than the room.
  void set_state(std::span<std::byte> image, std::int64_t step, const std::string& state) const;

 private:
  std::vector<ArrayInfo> arrays_;
  std::size_t state_bytes_;
  std::unique_ptr<FileLayout> file_;
};

struct CommittedCheckpoint {
  std::filesystem::path directory;
  std::int64_t size_bytes = 0;  // of all files
};

// Writes CHECKPOINTS/step-00000120/ as a whole or not at all: temporary directory, model.h5 and
// manifest.json with the XXH3-128 of it, fsync of files and directories, rename; then `latest`
// names it (a symbolic link, replaced atomically). Where it fails, the temporary is removed. Makes
// the directory CHECKPOINTS where it is missing (not its parents). Committing a step that exists
// already replaces it (Note [Replacing a step] in directory.hpp). step >= 0. came_on is called
// after each piece that was written.
CommittedCheckpoint commit_checkpoint(
    const std::filesystem::path& checkpoints, std::int64_t step, std::span<const std::byte> image,
    const std::function<void()>& came_on = [] {});

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

// Whether there is a committed one of this step.
bool has_checkpoint(const std::filesystem::path& checkpoints, std::int64_t step);

// `latest` becomes a link to this checkpoint, which must exist.
void mark_latest(const std::filesystem::path& checkpoints, std::int64_t step);

// `best` becomes a link to this checkpoint, which must exist.
void mark_best(const std::filesystem::path& checkpoints, std::int64_t step);

// Removes what is older than the newest `keep` (>= 1), oldest first, but never the best. Counts
// from `latest` backwards, so that the newest is the one that was committed last. Steps in
// `doubtful` are known not to verify, or not known to: they do not count, so that they never take
// the place of one that does, and go with what is older than all that are kept. Each one is renamed
// to a temporary name before it is deleted, so a kill in between leaves no half one.
void rotate_checkpoints(const std::filesystem::path& checkpoints, std::int64_t keep,
                        const std::set<std::int64_t>& doubtful = {});

// Throws CheckpointError unless there is room for as many checkpoints of this size, those that are
// there already among them.
void require_room(const std::filesystem::path& checkpoints, std::int64_t count,
                  std::int64_t size_bytes);

}  // namespace trireme
