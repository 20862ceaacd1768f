// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/files.hpp"
#include "base/inject.hpp"
#include "checkpoint/archive.hpp"
#include "checkpoint/directory.hpp"
#include "checkpoint/hdf5_layout.hpp"
#include "checkpoint/manifest.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace fs = std::filesystem;
namespace {

// Writes a new file, on disk when it returns, and returns the hash of what was written.
std::string write_hashed(const fs::path& path, std::span<const std::byte> data,
                         const std::function<void()>& came_on) {
  // Small enough for the second look at a piece to come from the cache.
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  FileDescriptor file = open_file(path, O_WRONLY | O_CREAT | O_EXCL);
  ContentHash hash;
  for (std::size_t begin = 0; begin < data.size(); begin += kPiece) {
    const auto piece = data.subspan(begin, std::min(kPiece, data.size() - begin));
    hash.update(piece);
    fault_point(FaultPoint::kCheckpointWrite);
    try {
      write_all(file, piece, path);
    } catch (const CheckpointError& error) {
      throw CheckpointError(std::string(error.what()) + "; the file was to have " +
                            std::to_string(data.size()) + " bytes, " + std::to_string(begin) +
                            " came before this piece");
    }
    came_on();
  }
  fault_point(FaultPoint::kCheckpointFsync);
  sync_file(file, path);
  file.close(path);
  return hash.hex();
}

// An empty directory that is gone at the end, unless it has got another name.
struct Temporary {
  explicit Temporary(fs::path name) : path(std::move(name)) {
    remove_tree(path);
    make_directory(path);
  }
  ~Temporary() {
    // An error is on its way already; a leftover is removed by the next run (remove_leftovers).
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  const fs::path path;
};

}  // namespace

std::size_t ArrayInfo::size_bytes() const {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  return count * size_of(dtype);
}

ArchiveLayout::ArchiveLayout(std::vector<ArrayInfo> arrays, std::size_t state_bytes)
    : arrays_(std::move(arrays)),
      state_bytes_(state_bytes),
      file_(std::make_unique<FileLayout>(lay_out_file(arrays_, state_bytes))) {}

ArchiveLayout::~ArchiveLayout() = default;
ArchiveLayout::ArchiveLayout(ArchiveLayout&&) noexcept = default;
ArchiveLayout& ArchiveLayout::operator=(ArchiveLayout&&) noexcept = default;

std::size_t ArchiveLayout::size_bytes() const { return file_->size_bytes; }

std::size_t ArchiveLayout::offset_of(std::size_t array) const { return file_->offsets[array]; }

void ArchiveLayout::begin(std::span<std::byte> image) const {
  TRIREME_ASSERT(image.size() == file_->size_bytes, "an image of another size");
  std::ranges::copy(file_->head, image.begin());
}

void ArchiveLayout::set_state(std::span<std::byte> image, std::int64_t step,
                              const std::string& state) const {
  static_assert(std::endian::native == std::endian::little, "files are little-endian");
  TRIREME_ASSERT(!state.empty() && state.size() <= state_bytes_,
                 "a state of " + std::to_string(state.size()) + " bytes, there is room for " +
                     std::to_string(state_bytes_));
  std::memcpy(image.data() + file_->step_offset, &step, sizeof(step));
  const std::span<std::byte> room = image.subspan(file_->state_offset, state_bytes_);
  const auto end = std::ranges::copy(std::as_bytes(std::span(state)), room.begin()).out;
  std::fill(end, room.end(), std::byte{0});
}

CommittedCheckpoint commit_checkpoint(const fs::path& checkpoints, std::int64_t step,
                                      std::span<const std::byte> image,
                                      const std::function<void()>& came_on) {
  TRIREME_ASSERT(step >= 0, "negative step");
  fault_point(FaultPoint::kCheckpointOpen);
  make_directory(checkpoints);
  const Temporary temporary(temporary_path(checkpoints, step_name(step)));
  const Manifest manifest{.step = step,
                          .model_bytes = static_cast<std::int64_t>(image.size()),
                          .model_hash = write_hashed(temporary.path / kModelFile, image, came_on)};
  fault_point(FaultPoint::kCheckpointWritten, [&] { flip_bit(temporary.path / kModelFile); });
  const std::string text = manifest_text(manifest);
  fault_point(FaultPoint::kCheckpointManifest);
  write_hashed(temporary.path / kManifestFile, std::as_bytes(std::span(text)), came_on);
  sync_directory(temporary.path);
  fault_point(FaultPoint::kCheckpointRename);
  fs::path target = publish(temporary.path, checkpoints, step);
  mark_latest(checkpoints, step);
  return {.directory = std::move(target),
          .size_bytes = manifest.model_bytes + static_cast<std::int64_t>(text.size())};
}

}  // namespace trireme
