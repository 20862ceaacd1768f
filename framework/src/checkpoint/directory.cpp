// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/directory.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <map>
#include <system_error>
#include <vector>

#include "base/files.hpp"
#include "base/inject.hpp"
#include "checkpoint/archive.hpp"
#include "checkpoint/manifest.hpp"
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
  if (error == std::errc::no_such_file_or_directory) return std::nullopt;
  if (error) throw_errno("read the link", link, error.value());  // it may be there all the same
  return step_of(target.filename().string());
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

void put_back_replaced(const fs::path& checkpoints, const Warn& warn) {
  for (const auto& [step, path] : checkpoints_by_step(checkpoints)) {
    const fs::path replaced = replaced_path(checkpoints, step);
    if (path == replaced) {
      rename_path(replaced, checkpoints / step_name(step));
      sync_directory(checkpoints);
      warn("put back checkpoint " + step_name(step) +
           ": a run was killed while it wrote that step again");
    } else if (std::error_code error; fs::exists(replaced, error)) {
      discard(replaced);
      warn("removed " + replaced.string() + ", left behind by a run that was killed");
    }
  }
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
  throw CheckpointError("no checkpoint in " + checkpoints.string() + " verifies:" + reasons);
}

bool has_checkpoint(const fs::path& checkpoints, std::int64_t step) {
  return checkpoints_by_step(checkpoints).contains(step);
}

void mark_latest(const fs::path& checkpoints, std::int64_t step) {
  std::error_code none;
  if (fs::read_symlink(checkpoints / "latest", none) == step_name(step)) return;
  fault_point(FaultPoint::kCheckpointLatest);
  replace_link(checkpoints / "latest", step_name(step));
}

void mark_best(const fs::path& checkpoints, std::int64_t step) {
  if (!has_checkpoint(checkpoints, step)) {
    throw CheckpointError("cannot mark " + step_name(step) + " as best: " + checkpoints.string() +
                          " has no such checkpoint");
  }
  fault_point(FaultPoint::kCheckpointBest);
  replace_link(checkpoints / "best", step_name(step));
}

void rotate_checkpoints(const fs::path& checkpoints, std::int64_t keep,
                        const std::set<std::int64_t>& doubtful) {
  TRIREME_ASSERT(keep >= 1, "rotation would remove the newest checkpoint");
  auto all = checkpoints_by_step(checkpoints);
  const std::optional<std::int64_t> latest = linked_step(checkpoints / "latest");
  const std::optional<std::int64_t> best = linked_step(checkpoints / "best");
  auto oldest_kept = latest ? all.upper_bound(*latest) : all.end();
  for (std::int64_t kept = 0; kept < keep && oldest_kept != all.begin();) {
    --oldest_kept;
    if (!doubtful.contains(oldest_kept->first)) ++kept;
  }
  for (auto it = all.begin(); it != oldest_kept; ++it) {
    if (it->first != best) discard(it->second);
  }
}

void require_room(const fs::path& checkpoints, std::int64_t count, std::int64_t size_bytes) {
  std::int64_t there = 0;
  for (const auto& [step, path] : checkpoints_by_step(checkpoints)) {
    std::error_code none;  // one that lacks a file will be replaced or stay small
    for (const char* name : {kModelFile, kManifestFile}) {
      const std::uintmax_t bytes = fs::file_size(path / name, none);
      if (!none) there += static_cast<std::int64_t>(bytes);
    }
  }
  std::error_code error;
  const fs::path place = fs::exists(checkpoints, error) ? checkpoints : checkpoints.parent_path();
  struct statvfs info {};
  if (::statvfs(place.c_str(), &info) != 0) throw_errno("measure the free space of", place, errno);
  const auto free = static_cast<std::int64_t>(std::uint64_t{info.f_bavail} * info.f_frsize);
  const std::int64_t wanted = count * size_bytes - there;
  if (free >= wanted) return;
  throw CheckpointError(place.string() + " has " + std::to_string(free) + " bytes free, " +
                        std::to_string(wanted) + " are needed: up to " + std::to_string(count) +
                        " checkpoints of " + std::to_string(size_bytes) + " bytes lie there, " +
                        std::to_string(there) +
                        " bytes do already; free some, lower checkpoint.keep or choose another "
                        "run.dir");
}

}  // namespace trireme
