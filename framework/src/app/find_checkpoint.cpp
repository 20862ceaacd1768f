// SPDX-License-Identifier: Apache-2.0
#include "app/find_checkpoint.hpp"

#include <optional>
#include <system_error>

#include "app/sinks.hpp"
#include "checkpoint/archive.hpp"
#include "checkpoint/directory.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/run_directory.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace fs = std::filesystem;

void require_there(const fs::path& target) {
  std::error_code error;  // what cannot be looked at is found by who opens it
  if (!fs::exists(target, error) && !error)
    throw CheckpointError(target.string() + " does not exist");
}

bool names_checkpoint(const fs::path& target) {
  std::error_code error;  // what cannot be looked at is found by who opens it
  if (!fs::is_directory(target, error)) return false;
  if (fs::exists(target / kManifestFile, error) || fs::exists(target / kModelFile, error))
    return true;
  return step_of(fs::weakly_canonical(target, error).filename().string()).has_value();
}

fs::path checkpoints_folder(const fs::path& target) {
  std::error_code error;
  if (fs::is_directory(target / "checkpoints", error)) return target / "checkpoints";
  if (fs::is_directory(target, error) &&
      (fs::weakly_canonical(target, error).filename() == "checkpoints" ||
       !list_checkpoints(target).empty())) {
    return target;
  }
  require_there(target);
  throw CheckpointError(target.string() + (RunDirectory::holds_run(target)
                                               ? " holds no checkpoint yet"
                                               : " is no checkpoint and no run directory"));
}

fs::path find_checkpoint(const fs::path& target, Wanted wanted) {
  if (names_checkpoint(target)) return target;
  const fs::path folder = checkpoints_folder(target);
  std::error_code error;
  if (wanted != Wanted::kNewest && fs::is_symlink(fs::symlink_status(folder / "best", error))) {
    fs::path best = fs::canonical(folder / "best", error);
    if (!error) return best;
    throw CheckpointError((folder / "best").string() +
                          " leads nowhere; a resume puts right what a kill has left, or name a "
                          "checkpoint");
  }
  if (wanted == Wanted::kBest) {
    throw CheckpointError(folder.string() + " has no best checkpoint: no evaluation on a " +
                          "validation split has chosen one (data.validation_fraction)");
  }
  if (const std::optional<fs::path> found = find_newest_good(folder, warn)) return *found;
  throw CheckpointError(target.string() + " holds no checkpoint yet");
}

}  // namespace trireme
