// SPDX-License-Identifier: Apache-2.0
#include "app/doctor_files.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string>

#include "app/estimate.hpp"
#include "base/files.hpp"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kLeastFreeBytes = 1'000'000'000;
constexpr double kMostFlushSeconds = 0.5;

fs::path nearest_folder(const fs::path& directory) {
  fs::path folder = fs::absolute(directory).lexically_normal();
  std::error_code none;  // what cannot be looked at does not count as there
  while (!fs::is_directory(folder, none) && folder.has_relative_path())
    folder = folder.parent_path();
  return folder;
}

void require_lock(const FileDescriptor& file, const fs::path& path) {
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) throw_errno("lock", path, errno);
}

// Seconds that a flush of 1 MiB to disk took. CheckpointError where something does not work.
double try_files(const fs::path& folder, const fs::path& file) {
  const fs::path before = folder / "before";
  const FileDescriptor descriptor = open_file(before, O_CREAT | O_EXCL | O_WRONLY);
  require_lock(descriptor, before);
  const std::vector<std::byte> bytes(std::size_t{1} << 20);
  write_all(descriptor, bytes, before);
  const auto start = std::chrono::steady_clock::now();
  sync_file(descriptor, before);
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  rename_path(before, file);
  sync_directory(folder);
  return passed.count();
}

Finding try_folder(const fs::path& folder, const fs::path& probe) {
  Finding finding{.check = "run directory", .text = {}};
  try {
    make_directory(probe);
    const double seconds = try_files(probe, probe / "file");
    const std::uintmax_t free_bytes = fs::space(folder).available;
    char flush[32];
    std::snprintf(flush, sizeof flush, "%.1f", seconds * 1e3);
    finding.text = folder.string() + ": rename and flock work, fsync of 1 MiB takes " + flush +
                   " ms, " + human_bytes(static_cast<std::int64_t>(free_bytes)) + " free";
    if (free_bytes < kLeastFreeBytes) {
      finding.hint = "checkpoints may not fit: free some, or set run.dir to another file system";
    } else if (seconds > kMostFlushSeconds) {
      finding.hint =
          "a checkpoint is flushed before it counts: set run.dir to a faster file system";
    }
    if (!finding.hint.empty()) finding.verdict = Verdict::kWarn;
  } catch (const std::exception& error) {
    finding.verdict = Verdict::kFail;
    finding.text = folder.string() + ": " + error.what();
    finding.hint = "checkpoints need it: set run.dir to a folder on another file system";
  }
  return finding;
}

}  // namespace

std::vector<Finding> check_run_directory(Communicator& world, const fs::path& directory) {
  std::vector<Finding> findings;
  std::string seen;  // rank 0's file; empty: it could not be made
  fs::path probe;
  if (world.rank() == 0) {
    const fs::path folder = nearest_folder(directory);
    probe = temporary_path(folder, "doctor");
    findings.push_back(try_folder(folder, probe));
    if (findings.back().verdict != Verdict::kFail) seen = (probe / "file").string();
  }
  seen = world.exchange(seen).front();
  std::error_code none;  // what cannot be looked at is not seen
  if (!seen.empty() && fs::exists(seen, none)) {
    findings.push_back({.check = "shared files", .text = "rank 0's files are seen"});
  } else if (!seen.empty()) {
    findings.push_back({.check = "shared files",
                        .verdict = Verdict::kFail,
                        .text = "does not see rank 0's " + seen,
                        .hint = "run.dir has to be on a file system that all hosts share, under "
                                "the same path"});
  }
  world.barrier();  // all have looked
  if (world.rank() == 0) {
    try {
      remove_tree(probe);
    } catch (const CheckpointError& error) {
      findings.push_back({.check = "run directory",
                          .verdict = Verdict::kWarn,
                          .text = error.what(),
                          .hint = "remove " + probe.string() + " by hand"});
    }
  }
  return findings;
}

}  // namespace trireme
