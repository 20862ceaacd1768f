// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/run_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "checkpoint/archive.hpp"
#include "checkpoint/directory.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kHolderLimit = 4096;

bool has_name(const FileDescriptor& file, const fs::path& path) {
  struct stat opened {
  }, named{};
  if (::fstat(file.get(), &opened) != 0) throw_errno("inspect", path, errno);
  return ::stat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

// What is another's is not written over.
void require_lock_file(const FileDescriptor& file, const fs::path& path) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) throw_errno("inspect", path, errno);
  const std::string text = read_file(path, kHolderLimit);
  const bool ours = text.empty() || text.starts_with("pid ");
  if (info.st_nlink == 1 && ours) return;
  throw CheckpointError(path.string() +
                        " is not a lock of Trireme's; choose another run.dir, or remove it");
}

// Takes the lock and notes who has it, for the message that others get.
FileDescriptor lock_directory(const fs::path& directory) {
  const fs::path path = directory / ".lock";
  FileDescriptor file = open_file(path, O_RDWR | O_CREAT);
  // Until it is the lock of the file that has this name: one that a refused start removes meanwhile
  // is nobody's.
  while (::flock(file.get(), LOCK_EX | LOCK_NB) == 0 && !has_name(file, path))
    file = open_file(path, O_RDWR | O_CREAT);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (error != EWOULDBLOCK) throw_errno("lock", path, error);
    throw CheckpointError("run directory " + directory.string() + " is in use by " +
                          read_file(path, kHolderLimit) +
                          "; wait for that run or choose another run.dir");
  }
  require_lock_file(file, path);
  if (::ftruncate(file.get(), 0) != 0) throw_errno("write", path, errno);
  const std::string holder = "pid " + std::to_string(getpid()) + " on host " + host_name();
  write_all(file, std::as_bytes(std::span(holder)), path);
  return file;
}

// Of `path` and its parents those that are missing, the innermost first.
std::vector<fs::path> missing_directories(const fs::path& path) {
  std::vector<fs::path> missing;
  std::error_code error;
  for (fs::path at = path; !at.empty() && !fs::exists(at, error); at = at.parent_path()) {
    missing.push_back(at);
    if (at == at.parent_path()) break;
  }
  return missing;
}

void make_directories(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw_errno("make run directory", path, error.value());
  if (!fs::is_directory(path, error)) {
    throw CheckpointError("run directory " + path.string() + " is not a directory");
  }
}

// Whoever owns a directory may change what is in it under our hands.
void require_owned(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) throw_errno("inspect", path, errno);
  const uid_t self = ::geteuid();
  if (info.st_uid == self || info.st_uid == 0 || self == 0) return;
  throw CheckpointError("run directory " + path.string() + " belongs to user id " +
                        std::to_string(info.st_uid) + ", and you are " + std::to_string(self) +
                        "; copy the run, or choose another run.dir");
}

void require_no_link(const fs::path& path) {
  std::error_code error;
  if (!fs::is_symlink(fs::symlink_status(path, error))) return;
  throw CheckpointError(path.string() +
                        " is a symbolic link, expected a directory; links are not followed inside "
                        "a run directory: let run.dir itself lead to where there is room");
}

// A copy that followed links has checkpoints in their place, which nothing here could replace.
void require_links(const fs::path& checkpoints) {
  std::error_code error;
  for (const char* name : {"latest", "best"}) {
    if (fs::symlink_status(checkpoints / name, error).type() != fs::file_type::directory) continue;
    throw CheckpointError((checkpoints / name).string() +
                          " is a directory, expected a link: the run was copied with its links "
                          "followed; remove this directory, a link takes its place");
  }
}

}  // namespace

RunDirectory::RunDirectory(fs::path path) : path_(std::move(path)), lock_(lock_directory(path_)) {}

RunDirectory& RunDirectory::operator=(RunDirectory&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(made_, other.made_);
  std::swap(lock_, other.lock_);
  return *this;
}

RunDirectory::~RunDirectory() {
  if (made_.empty() || holds_run(path_)) return;
  std::error_code not_empty;  // then it stays
  for (const fs::path& path : made_) fs::remove(path, not_empty);
}

RunDirectory RunDirectory::create(const fs::path& path) {
  std::vector<fs::path> made;
  std::error_code error;  // what cannot be looked at is not ours to remove
  for (const char* name : {"checkpoints", ".lock"}) {
    if (fs::symlink_status(path / name, error).type() == fs::file_type::not_found)
      made.push_back(path / name);
  }
  for (const fs::path& missing : missing_directories(path)) made.push_back(missing);
  make_directories(path);
  require_owned(path);
  require_no_link(path / "checkpoints");
  RunDirectory directory(path);
  // Looked at under the lock: a run that starts at the same moment is seen.
  if (holds_run(path)) {
    const std::string run = path.string();
    const std::string way_on =
        list_checkpoints(directory.checkpoints()).empty()
            ? " holds a run without a checkpoint; start it again with `--resume auto`"
            : " holds a run already; continue it with `trainer resume " + run + "`";
    throw CheckpointError("run directory " + run + way_on +
                          ", or choose another run.dir (or run.name, where run.dir is not set)");
  }
  make_directory(directory.checkpoints());
  directory.made_ = std::move(made);
  return directory;
}

void RunDirectory::require_run(const fs::path& path) {
  if (holds_run(path)) return;
  throw CheckpointError(path.string() + " holds no run; expected the directory of one, with " +
                        "config.yaml and checkpoints/");
}

RunDirectory RunDirectory::open(const fs::path& path, const Warn& warn) {
  require_run(path);
  require_owned(path);
  require_no_link(path / "checkpoints");
  RunDirectory directory(path);
  require_links(directory.checkpoints());
  remove_leftovers(path, warn);
  remove_leftovers(directory.checkpoints(), warn);
  put_back_replaced(directory.checkpoints(), warn);
  return directory;
}

std::string RunDirectory::holder(const fs::path& path) {
  std::error_code error;
  const fs::path lock = path / ".lock";
  return fs::exists(fs::symlink_status(lock, error)) ? read_file(lock, kHolderLimit)
                                                     : std::string();
}

bool RunDirectory::holds_run(const fs::path& path) {
  std::error_code error;  // what cannot be looked at is found by the first write
  for (const char* name : {"config.yaml", "config.orig.yaml", "env.json", "state.json",
                           "metrics.jsonl", "metrics.csv", "log.txt"}) {
    if (fs::exists(fs::symlink_status(path / name, error))) return true;
  }
  const fs::path checkpoints = path / "checkpoints";
  return fs::is_directory(checkpoints, error) && !fs::is_empty(checkpoints, error);
}

void RunDirectory::write(const std::string& name, std::string_view text) const {
  replace_file(file(name), text);
}

std::string RunDirectory::read(const fs::path& path, const std::string& name) {
  constexpr std::size_t kLimit = std::size_t{64} << 20;
  return read_file(path / name, kLimit);
}

}  // namespace trireme
