// SPDX-License-Identifier: Apache-2.0
// The directory of one run, locked for as long as a process trains in it. Rank 0 only. Throws
// CheckpointError.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/files.hpp"

namespace trireme {

class RunDirectory {
 public:
  // Makes `path` and its parents for a new run. Refuses one that holds a run (holds_run). Before it
  // returns, something was written, so a directory that cannot be written is found here.
  static RunDirectory create(const std::filesystem::path& path);
  // To go on with the run in `path`. Leftovers of killed processes, here and among the checkpoints,
  // are removed and named through warn. Refuses a copy in which `latest` or `best` is no link.
  static RunDirectory open(const std::filesystem::path& path, const Warn& warn);
  // Throws where holds_run says no. Takes no lock.
  static void require_run(const std::filesystem::path& path);
  // A file of the run in `path`, at most 64 MiB; no symbolic link. Takes no lock.
  static std::string read(const std::filesystem::path& path, const std::string& name);
  // Whether `path` is a directory with a configuration, state, metrics, log or checkpoint of a run.
  static bool holds_run(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path file(const std::string& name) const { return path_ / name; }

  // Replaces a small file as a whole, durably; a symbolic link of that name is replaced, not
  // followed.
  void write(const std::string& name, std::string_view text) const;

 private:
  explicit RunDirectory(std::filesystem::path path);

  std::filesystem::path path_;
  FileDescriptor lock_;  // flock on .lock; the kernel releases it however the process ends
};

}  // namespace trireme
