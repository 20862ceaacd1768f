// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <algorithm>
#include <system_error>

#include "base/files.hpp"
#include "base/inject.hpp"
#include "checkpoint/archive.hpp"
#include "checkpoint/directory.hpp"
#include "checkpoint/hdf5_image.hpp"
#include "checkpoint/hdf5_types.hpp"
#include "checkpoint/manifest.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace fs = std::filesystem;
namespace {

// Writes a new file, on disk when it returns, and returns the hash of what was written.
std::string write_hashed(const fs::path& path, std::span<const std::byte> data) {
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
  }
  fault_point(FaultPoint::kCheckpointFsync);
  sync_file(file, path);
  file.close(path);
  return hash.hex();
}

}  // namespace

std::size_t ArrayInfo::size_bytes() const {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  return count * size_of(dtype);
}

struct CheckpointWriter::State {
  fs::path checkpoints;
  std::int64_t step = 0;
  fs::path temporary;
  std::unique_ptr<Hdf5Image> image;  // none after commit
  std::int64_t size_bytes = 0;
};

CheckpointWriter::CheckpointWriter(fs::path checkpoints, std::int64_t step)
    : state_(std::make_unique<State>()) {
  TRIREME_ASSERT(step >= 0, "negative step");
  fault_point(FaultPoint::kCheckpointOpen);
  make_directory(checkpoints);
  state_->temporary = temporary_path(checkpoints, step_name(step));
  state_->checkpoints = std::move(checkpoints);
  state_->step = step;
  state_->image = std::make_unique<Hdf5Image>(step);
  remove_tree(state_->temporary);
  make_directory(state_->temporary);
}

CheckpointWriter::~CheckpointWriter() {
  // An error is on its way already; a leftover is removed by the next run (remove_leftovers).
  std::error_code ignored;
  fs::remove_all(state_->temporary, ignored);
}

void CheckpointWriter::add(const ArrayInfo& info, std::span<const std::byte> data) {
  TRIREME_ASSERT(state_->image != nullptr, "add after commit");
  state_->image->add_array(info, data);
}

fs::path CheckpointWriter::commit(const std::string& state) {
  TRIREME_ASSERT(state_->image != nullptr, "commit after commit");
  state_->image->add_text(kStateDataset, state);
  const std::span<const std::byte> bytes = state_->image->finish();
  Manifest manifest{.step = state_->step,
                    .model_bytes = static_cast<std::int64_t>(bytes.size()),
                    .model_hash = write_hashed(state_->temporary / kModelFile, bytes)};
  state_->image.reset();
  fault_point(FaultPoint::kCheckpointWritten, [&] { flip_bit(state_->temporary / kModelFile); });
  const std::string text = manifest_text(manifest);
  fault_point(FaultPoint::kCheckpointManifest);
  write_hashed(state_->temporary / kManifestFile, std::as_bytes(std::span(text)));
  sync_directory(state_->temporary);
  fault_point(FaultPoint::kCheckpointRename);
  fs::path target = publish(state_->temporary, state_->checkpoints, state_->step);
  fault_point(FaultPoint::kCheckpointLatest);
  replace_link(state_->checkpoints / "latest", target.filename().string());
  state_->size_bytes = manifest.model_bytes + static_cast<std::int64_t>(text.size());
  return target;
}

std::int64_t CheckpointWriter::size_bytes() const { return state_->size_bytes; }

}  // namespace trireme
