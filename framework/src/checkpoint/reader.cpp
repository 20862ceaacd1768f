// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <system_error>

#include "checkpoint/archive.hpp"
#include "checkpoint/directory.hpp"
#include "checkpoint/hdf5_reader.hpp"
#include "checkpoint/manifest.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace fs = std::filesystem;
namespace {

// A directory that has the name of a step must hold that step; a copy may have any other name.
void require_step(const fs::path& directory, std::int64_t found, const std::string& where) {
  std::error_code error;
  const fs::path resolved = fs::canonical(directory, error);
  const std::optional<std::int64_t> named = step_of(resolved.filename().string());
  if (named && *named != found) {
    throw CheckpointError(where + " is of step " + std::to_string(found) +
                          ", its directory says step " + std::to_string(*named));
  }
}

}  // namespace

struct CheckpointReader::State {
  explicit State(const fs::path& directory)
      : manifest(verify_files(directory)), file(directory / kModelFile) {}
  Manifest manifest;
  Hdf5Reader file;
};

CheckpointReader::CheckpointReader(const fs::path& directory)
    : state_(std::make_unique<State>(directory)) {
  require_step(directory, state_->manifest.step, (directory / kManifestFile).string());
  if (state_->file.format() != state_->manifest.format) {
    throw CheckpointError((directory / kModelFile).string() + " is of format " +
                          std::to_string(state_->file.format()) + ", its manifest says format " +
                          std::to_string(state_->manifest.format));
  }
  if (state_->file.step() != state_->manifest.step) {
    throw CheckpointError((directory / kModelFile).string() + " is of step " +
                          std::to_string(state_->file.step()) + ", its manifest says step " +
                          std::to_string(state_->manifest.step));
  }
}

CheckpointReader::~CheckpointReader() = default;

std::int64_t CheckpointReader::step() const { return state_->manifest.step; }

const std::string& CheckpointReader::state() const { return state_->file.state(); }

const std::vector<ArrayInfo>& CheckpointReader::arrays() const { return state_->file.arrays(); }

const ArrayInfo* CheckpointReader::find(const std::string& name) const {
  const auto it = std::ranges::lower_bound(arrays(), name, {}, &ArrayInfo::name);
  return it != arrays().end() && it->name == name ? &*it : nullptr;
}

void CheckpointReader::read(const ArrayInfo& info, std::span<std::byte> data) const {
  state_->file.read(info, data);
}

}  // namespace trireme
