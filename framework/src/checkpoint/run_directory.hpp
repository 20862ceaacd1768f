// SPDX-License-Identifier: Apache-2.0
// The directory of one run, locked for as long as a process trains in it. Rank 0 only. Throws
// CheckpointError.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.hpp"

namespace trireme {

class RunDirectory {
 public:
  // Makes `path` and its parents for a new run. Refuses one that holds a run (holds_run), that is
  // another user's, or in which `checkpoints` is a link. Before it returns, something was written,
  // so a directory that cannot be written is found here. What it has made is removed again by the
  // destructor, unless keep() was called or anything else is in there.
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

  RunDirectory(RunDirectory&&) noexcept = default;
  RunDirectory& operator=(RunDirectory&& other) noexcept;
  ~RunDirectory();

  void keep() { made_.clear(); }  // the run begins

  // Who has locked this directory, "pid 12 on host a", as seen from this host; empty: no such file.
  // Takes no lock.
  static std::string holder(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path file(const std::string& name) const { return path_ / name; }

  // Replaces a small file as a whole, durably; a symbolic link of that name is replaced, not
  // followed.
  void write(const std::string& name, std::string_view text) const;

 private:
  explicit RunDirectory(std::filesystem::path path);

  std::filesystem::path path_;
  std::vector<std::filesystem::path> made_;  // to remove again, in this order
  FileDescriptor lock_;  // flock on .lock; the kernel releases it however the process ends
};

}  // namespace trireme
