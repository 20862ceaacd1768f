// SPDX-License-Identifier: Apache-2.0
// From what a user names to checkpoints. Rank 0 only.
#pragma once

#include <filesystem>

namespace trireme {

enum class Wanted { kNewest, kBest, kBestElseNewest };

// target: a checkpoint, or a link to one, is taken as it is; of a run directory or its folder
// checkpoints/ the newest one that verifies (newer ones that do not are warned of) or the one that
// `best` names. Throws CheckpointError where there is none.
std::filesystem::path find_checkpoint(const std::filesystem::path& target, Wanted wanted);

// The folder of a run's checkpoints: target itself, or the one in this run directory. Throws
// CheckpointError where target is neither.
std::filesystem::path checkpoints_folder(const std::filesystem::path& target);

// Throws CheckpointError where there is nothing of this name.
void require_there(const std::filesystem::path& target);

// Whether target is meant to be one checkpoint, damaged or not.
bool names_checkpoint(const std::filesystem::path& target);

}  // namespace trireme
