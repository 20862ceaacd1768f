// SPDX-License-Identifier: Apache-2.0
// Names inside the directory of checkpoints, and the moves between them.
//
//   step-00000120             a committed checkpoint
//   .replaced-step-00000120   the same, while a new one of this step takes its place
//   .tmp-NAME-HOST-PID        being made or being deleted (base/files.hpp)
//   latest, best              symbolic links to step-...
//
// Note [Replacing a step]
// rename(2) cannot replace a directory that is not empty, and exchanging two names is not offered
// by network file systems. So the old one first moves aside, to a name that listings take for it as
// long as the step has no other: a kill between the two renames loses nothing, and nothing has to
// be repaired.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/files.hpp"

namespace trireme {

// "step-00000120"
std::string step_name(std::int64_t step);

// The step of such a name, also of a replaced one; nothing for every other name.
std::optional<std::int64_t> step_of(std::string_view name);

// Gives the finished directory `temporary` the name of this step, durably, and returns its path.
std::filesystem::path publish(const std::filesystem::path& temporary,
                              const std::filesystem::path& checkpoints, std::int64_t step);

// After a kill between the two: the replaced one gets its name back where its step has no other,
// and goes where it has. Told to warn. For who has the directory's lock.
void put_back_replaced(const std::filesystem::path& checkpoints, const Warn& warn);

}  // namespace trireme
