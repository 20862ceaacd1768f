// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/directory.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <map>
#include <system_error>
#include <vector>

#include "base/files.hpp"
#include "base/inject.hpp"
#include "checkpoint/archive.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kReplacedPrefix = ".replaced-";

fs::path replaced_path(const fs::path& checkpoints, std::int64_t step) {
  return checkpoints / (std::string(kReplacedPrefix) + step_name(step));
}

// Deletes a checkpoint so that it is never half there under its own name.
void discard(const fs::path& checkpoint) {
  const fs::path doomed =
      temporary_path(checkpoint.parent_path(), "delete-" + checkpoint.filename().string());
  remove_tree(doomed);
  fault_point(FaultPoint::kCheckpointRotate);
  rename_path(checkpoint, doomed);
  fault_point(FaultPoint::kCheckpointDelete);
  remove_tree(doomed);
}

std::map<std::int64_t, fs::path> checkpoints_by_step(const fs::path& checkpoints) {
  std::map<std::int64_t, fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(checkpoints, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    const std::optional<std::int64_t> step = step_of(name);
    std::error_code gone;  // an entry that vanishes meanwhile is no directory
    if (!step || it->symlink_status(gone).type() != fs::file_type::directory) continue;
    if (name.starts_with(kReplacedPrefix)) {
      found.emplace(*step, it->path());
    } else {
      found.insert_or_assign(*step, it->path());
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw_errno("list", checkpoints, error.value());
  }
  return found;
}

// The step that `latest` or `best` names; nothing where there is no such link.
std::optional<std::int64_t> linked_step(const fs::path& link) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  return error ? std::nullopt : step_of(target.filename().string());
}

}  // namespace

std::string step_name(std::int64_t step) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "step-%08lld", static_cast<long long>(step));
  return text.data();
}

std::optional<std::int64_t> step_of(std::string_view name) {
  if (name.starts_with(kReplacedPrefix)) name.remove_prefix(kReplacedPrefix.size());
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kStepPrefix.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  // One step has one name: no signs, no missing or further zeros.
  if (error != std::errc() || step < 0 || step_name(step) != name) return std::nullopt;
  return step;
}

fs::path publish(const fs::path& temporary, const fs::path& checkpoints, std::int64_t step) {
  const fs::path target = checkpoints / step_name(step);
  const fs::path replaced = replaced_path(checkpoints, step);
  std::error_code error;
  if (fs::exists(target, error)) {
    if (fs::exists(replaced, error)) discard(replaced);
    rename_path(target, replaced);
  }
  rename_path(temporary, target);
  sync_directory(checkpoints);
  if (fs::exists(replaced, error)) discard(replaced);
  return target;
}

std::vector<fs::path> list_checkpoints(const fs::path& checkpoints) {
  std::vector<fs::path> paths;
  for (const auto& [step, path] : checkpoints_by_step(checkpoints)) paths.push_back(path);
  return paths;
}

std::optional<fs::path> find_newest_good(const fs::path& checkpoints,
                                         const std::function<void(const std::string&)>& warn) {
  std::vector<fs::path> paths = list_checkpoints(checkpoints);
  if (paths.empty()) return std::nullopt;
  std::ranges::reverse(paths);
  std::string reasons;
  for (const fs::path& path : paths) {
    try {
      const CheckpointReader verified(path);
      return path;
    } catch (const CheckpointError& error) {
      warn("passing over checkpoint " + path.filename().string() + ": " + error.what());
      reasons += std::string("\n  ") + error.what();
    }
  }
  throw CheckpointError("no checkpoint in " + checkpoints.string() +
                        " can be used; starting over would lose the run, so remove them first if "
                        "that is what you want:" +
                        reasons);
}

void mark_best(const fs::path& checkpoints, std::int64_t step) {
  if (!checkpoints_by_step(checkpoints).contains(step)) {
    throw CheckpointError("cannot mark " + step_name(step) + " as best: " + checkpoints.string() +
                          " has no such checkpoint");
  }
  fault_point(FaultPoint::kCheckpointBest);
  replace_link(checkpoints / "best", step_name(step));
}

void rotate_checkpoints(const fs::path& checkpoints, std::int64_t keep) {
  TRIREME_ASSERT(keep >= 1, "rotation would remove the newest checkpoint");
  const auto all = checkpoints_by_step(checkpoints);
  const std::optional<std::int64_t> latest = linked_step(checkpoints / "latest");
  const std::optional<std::int64_t> best = linked_step(checkpoints / "best");
  const auto end = latest ? all.upper_bound(*latest) : all.end();
  const std::int64_t excess = std::distance(all.begin(), end) - keep;
  if (excess <= 0) return;
  for (auto it = all.begin(); it != std::next(all.begin(), excess); ++it) {
    if (it->first != best) discard(it->second);
  }
}

}  // namespace trireme
