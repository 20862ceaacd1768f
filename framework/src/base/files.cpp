// SPDX-License-Identifier: Apache-2.0
#include "base/files.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/inject.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kTemporaryPrefix = ".tmp-";

// Repeats a system call that a signal interrupted. Fails instead where that was injected.
template <typename Call>
auto retry(Call call) {
  decltype(call()) result;
  if (const int error = take_injected_errno(); error != 0) {
    errno = error;
    return static_cast<decltype(call())>(-1);
  }
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

// ", 12345 bytes free there", or nothing where that cannot be told.
std::string describe_free_space(const FileDescriptor& file) {
  struct statvfs info {};
  if (fstatvfs(file.get(), &info) != 0) return "";
  return ", " + std::to_string(info.f_bavail * info.f_frsize) + " bytes free there";
}

enum class Owner { kDead, kUnknown };

// What nobody has waited for yet is there, and does nothing any more: mpirun leaves such behind
// when it ends ranks and itself.
bool is_zombie(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // PID (NAME) STATE ...
  return name_end != std::string::npos && text.substr(name_end).starts_with(") Z");
}

// Whether the process that a temporary name ends with, "-HOST-PID", is gone.
Owner owner_of(std::string_view name) {
  const std::size_t dash = name.rfind('-');
  const std::string_view digits = name.substr(dash + 1);
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), pid);
  if (error != std::errc() || end != digits.data() + digits.size() || pid <= 0) {
    return Owner::kUnknown;
  }
  if (!name.substr(0, dash).ends_with("-" + host_name())) return Owner::kUnknown;
  // A restarted container often gets the pid that its predecessor had.
  if (pid == getpid()) return Owner::kDead;
  const bool gone = kill(pid, 0) != 0 && errno == ESRCH;
  return gone || is_zombie(pid) ? Owner::kDead : Owner::kUnknown;
}

}  // namespace

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  // Reached without close() only for files that were read, or while an error is on its way already.
  if (descriptor_ >= 0) ::close(descriptor_);
}

void FileDescriptor::close(const fs::path& path) {
  // Not repeated after EINTR: on Linux the descriptor is gone by then.
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) {
    throw_errno("close", path, errno);
  }
}

std::string describe_errno(int error) {
  return std::generic_category().message(error) + " (errno " + std::to_string(error) + ")";
}

void throw_errno(const std::string& action, const fs::path& path, int error) {
  throw CheckpointError("cannot " + action + " " + path.string() + ": " + describe_errno(error));
}

FileDescriptor open_file(const fs::path& path, int flags) {
  constexpr mode_t kMode = 0644;
  FileDescriptor file(retry(
      [&] { return ::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, kMode); }));
  if (file.get() < 0) {
    const int error = errno;
    if (error == ELOOP) {
      throw CheckpointError("cannot open " + path.string() +
                            ": it is a symbolic link; expected a file; remove the link");
    }
    throw_errno("open", path, error);
  }
  struct stat info {};
  if (fstat(file.get(), &info) != 0) throw_errno("inspect", path, errno);
  if (!S_ISREG(info.st_mode)) {
    throw CheckpointError("cannot use " + path.string() + ": it is not a regular file");
  }
  return file;
}

void write_all(const FileDescriptor& file, std::span<const std::byte> data, const fs::path& path) {
  std::size_t done = 0;
  while (done < data.size()) {
    const ssize_t count =
        retry([&] { return ::write(file.get(), data.data() + done, data.size() - done); });
    if (count <= 0) {
      const int error = count < 0 ? errno : EIO;
      throw CheckpointError("cannot write " + path.string() + ": " + describe_errno(error) +
                            " after " + std::to_string(done) + " of " +
                            std::to_string(data.size()) + " bytes" + describe_free_space(file));
    }
    done += static_cast<std::size_t>(count);
  }
}

void sync_file(const FileDescriptor& file, const fs::path& path) {
  if (retry([&] { return ::fsync(file.get()); }) != 0) throw_errno("sync to disk", path, errno);
}

void sync_directory(const fs::path& directory) {
  FileDescriptor file(
      retry([&] { return ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (file.get() < 0) throw_errno("open directory", directory, errno);
  sync_file(file, directory);
}

void make_directory(const fs::path& directory) {
  constexpr mode_t kMode = 0755;
  if (retry([&] { return ::mkdir(directory.c_str(), kMode); }) == 0) return;
  const int error = errno;
  std::error_code ignored;  // whatever it is, mkdir's own error says more
  if (error != EEXIST || !fs::is_directory(directory, ignored)) {
    throw_errno("make directory", directory, error);
  }
}

void rename_path(const fs::path& from, const fs::path& to) {
  if (retry([&] { return ::rename(from.c_str(), to.c_str()); }) != 0) {
    const int error = errno;
    throw CheckpointError("cannot rename " + from.string() + " to " + to.string() + ": " +
                          describe_errno(error));
  }
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw_errno("remove", path, error.value());
}

void replace_file(const fs::path& path, std::string_view text) {
  const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const fs::path temporary = temporary_path(directory, path.filename().string());
  remove_tree(temporary);
  try {
    FileDescriptor file = open_file(temporary, O_WRONLY | O_CREAT | O_EXCL);
    write_all(file, std::as_bytes(std::span(text)), temporary);
    sync_file(file, temporary);
    file.close(temporary);
    rename_path(temporary, path);
  } catch (const CheckpointError&) {
    std::error_code ignored;  // the first error is the one to report
    fs::remove(temporary, ignored);
    throw;
  }
  sync_directory(directory);
}

void replace_link(const fs::path& link, const std::string& target) {
  const fs::path directory = link.has_parent_path() ? link.parent_path() : fs::path(".");
  const fs::path temporary = temporary_path(directory, link.filename().string());
  remove_tree(temporary);
  if (retry([&] { return ::symlink(target.c_str(), temporary.c_str()); }) != 0)
    throw_errno("make link", temporary, errno);
  try {
    rename_path(temporary, link);
  } catch (const CheckpointError&) {
    std::error_code ignored;  // the first error is the one to report
    fs::remove(temporary, ignored);
    throw;
  }
  sync_directory(directory);
}

std::string read_file(const fs::path& path, std::size_t max_bytes) {
  const FileDescriptor file = open_file(path, O_RDONLY);
  std::string text;
  std::array<char, 65536> block{};
  while (true) {
    const ssize_t count = retry([&] { return ::read(file.get(), block.data(), block.size()); });
    if (count < 0) throw_errno("read", path, errno);
    if (count == 0) return text;
    text.append(block.data(), static_cast<std::size_t>(count));
    if (text.size() > max_bytes) {
      throw CheckpointError("cannot read " + path.string() + ": it has more than " +
                            std::to_string(max_bytes) + " bytes, the most expected here");
    }
  }
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (gethostname(name.data(), name.size()) != 0) throw_errno("read", "the host name", errno);
  return name.data();
}

fs::path temporary_path(const fs::path& directory, const std::string& name) {
  return directory / (std::string(kTemporaryPrefix) + name + "-" + host_name() + "-" +
                      std::to_string(getpid()));
}

void remove_leftovers(const fs::path& directory, const Warn& warn) {
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(kTemporaryPrefix)) continue;
    if (owner_of(name) == Owner::kDead) {
      remove_tree(it->path());
      warn("removed " + it->path().string() + ", left behind by a run that was killed");
    } else {
      warn("kept " + it->path().string() +
           ": its owner may still run (the name ends with host and pid); remove it if not");
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw_errno("list", directory, error.value());
  }
}

}  // namespace trireme
