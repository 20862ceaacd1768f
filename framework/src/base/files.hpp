// SPDX-License-Identifier: Apache-2.0
// Files that must be whole or absent: durable writes, atomic replacement, temporary names that tell
// who owns them. Every function throws CheckpointError with the path and errno. Callable from any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

using Warn = std::function<void(const std::string&)>;

// Owns a file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  int get() const { return descriptor_; }  // -1: none
  // For files that were written: some file systems report a lost write only here.
  void close(const std::filesystem::path& path);

 private:
  int descriptor_ = -1;
};

// "No space left on device (errno 28)"
std::string describe_errno(int error);

// "cannot ACTION PATH: TEXT (errno N)" as CheckpointError.
[[noreturn]] void throw_errno(const std::string& action, const std::filesystem::path& path,
                              int error);

// open(2) for regular files only: never follows a symbolic link in the last component, never blocks
// on a pipe laid in wait, is not inherited by programs started later. New files get mode 0644 less
// the umask.
FileDescriptor open_file(const std::filesystem::path& path, int flags);

// Writes all of it. The message of a failure says how much of how much was written, and what is
// free.
void write_all(const FileDescriptor& file, std::span<const std::byte> data,
               const std::filesystem::path& path);

// fsync.
void sync_file(const FileDescriptor& file, const std::filesystem::path& path);
void sync_directory(const std::filesystem::path& directory);

// mkdir; one that exists already is fine.
void make_directory(const std::filesystem::path& directory);
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);
// Removes a file or a whole directory; links are removed, not followed.
void remove_tree(const std::filesystem::path& path);

// path then holds exactly text, on disk, or what it held before: temporary file, fsync, rename,
// fsync of the directory. A symbolic link at path is replaced, not followed.
void replace_file(const std::filesystem::path& path, std::string_view text);
// The same for a symbolic link with this target text.
void replace_link(const std::filesystem::path& link, const std::string& target);

// The whole of a regular file of at most max_bytes.
std::string read_file(const std::filesystem::path& path, std::size_t max_bytes);

// This machine's name.
std::string host_name();

// DIRECTORY/.tmp-NAME-HOST-PID: where this process prepares NAME.
std::filesystem::path temporary_path(const std::filesystem::path& directory,
                                     const std::string& name);

// Removes what killed processes left under temporary names in this directory. An owner counts as
// dead if it ran on this host and its pid is free, a zombie's, or this process's own (so call it
// before this process writes there). Each leftover is named by warn: as removed, or as kept because
// its owner may live. A missing directory has none.
void remove_leftovers(const std::filesystem::path& directory, const Warn& warn);

}  // namespace trireme
