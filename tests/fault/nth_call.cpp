// SPDX-License-Identifier: Apache-2.0
// For LD_PRELOAD: counts the system calls by which one rank changes what lies in its run directory,
// or takes memory that its node shares, and makes the n-th one fail, or kills the process there.
// Told by the environment:
//
//   NTH_CALL_RANK       the rank; other ranks run as they are
//   NTH_CALL_DIRECTORY  the run directory, absolute
//   NTH_CALL_KIND       files | memory: what is counted
//   NTH_CALL_LIST       a file that gets a line "NAME PATH" for each one
//   NTH_CALL_N          from 1; 0: all of them are only listed
//   NTH_CALL_ERROR      errno of the n-th, or 0: SIGKILL
//   NTH_CALL_FOR_GOOD   1: all later ones fail, too
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {

enum class Kind { kNothing, kFiles, kMemory };

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Read once, at the first call that could matter.
struct Plan {
  Kind kind = Kind::kNothing;
  std::string directory;
  int list = -1;
  long n = 0;
  int error = 0;
  bool for_good = false;
  std::atomic<long> calls = 0;

  Plan() {
    const std::string_view rank = variable("NTH_CALL_RANK");
    if (rank.empty() || rank != variable("OMPI_COMM_WORLD_RANK")) return;
    directory = variable("NTH_CALL_DIRECTORY");
    list = static_cast<int>(syscall(SYS_openat, AT_FDCWD, std::getenv("NTH_CALL_LIST"),
                                    O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    n = std::atol(variable("NTH_CALL_N").data());
    error = std::atoi(variable("NTH_CALL_ERROR").data());
    for_good = variable("NTH_CALL_FOR_GOOD") == "1";
    kind = variable("NTH_CALL_KIND") == "memory" ? Kind::kMemory : Kind::kFiles;
  }
};

Plan& plan() {
  static Plan the;
  return the;
}

std::string path_of(int fd) {
  char text[PATH_MAX] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const long size = syscall(SYS_readlinkat, AT_FDCWD, link.c_str(), text, sizeof text - 1);
  return size < 0 ? std::string() : std::string(text, static_cast<std::size_t>(size));
}

std::string path_at(int directory, const char* path) {
  if (path[0] == '/') return path;
  if (directory != AT_FDCWD) return path_of(directory) + "/" + path;
  char current[PATH_MAX] = {};
  if (syscall(SYS_getcwd, current, sizeof current) < 0) return path;
  return std::string(current) + "/" + path;
}

// Whether this call, which is of this kind and concerns this path, is to fail; sets errno.
bool fails(Kind kind, const char* name, const std::string& path) {
  Plan& the = plan();
  if (the.kind != kind) return false;
  const std::string wanted = kind == Kind::kMemory ? "/memfd:trireme" : the.directory;
  if (!std::string_view(path).starts_with(wanted)) return false;
  const long call = ++the.calls;
  const std::string line = std::string(name) + " " + path + "\n";
  syscall(SYS_write, the.list, line.data(), line.size());
  if (the.n == 0 || call < the.n || (call > the.n && !the.for_good)) return false;
  if (the.error == 0) syscall(SYS_kill, getpid(), SIGKILL);
  errno = the.error;
  return true;
}
bool file_fails(const char* name, int fd) {
  return plan().kind == Kind::kFiles && fails(Kind::kFiles, name, path_of(fd));
}
bool file_fails(const char* name, int directory, const char* path) {
  return plan().kind == Kind::kFiles && fails(Kind::kFiles, name, path_at(directory, path));
}
bool memory_fails(const char* name, int fd) {
  return plan().kind == Kind::kMemory && fails(Kind::kMemory, name, path_of(fd));
}

int open_at(int directory, const char* path, int flags, mode_t mode) {
  const bool changes = (flags & (O_CREAT | O_TRUNC)) != 0;
  if (changes && file_fails("open", directory, path)) return -1;
  return static_cast<int>(syscall(SYS_openat, directory, path, flags, mode));
}
mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}
int remove_at(const char* name, int directory, const char* path, int flags) {
  if (file_fails(name, directory, path)) return -1;
  return static_cast<int>(syscall(SYS_unlinkat, directory, path, flags));
}
int truncate_to(int fd, off_t size) {
  if (file_fails("ftruncate", fd) || memory_fails("ftruncate", fd)) return -1;
  return static_cast<int>(syscall(SYS_ftruncate, fd, size));
}
void* map(void* address, size_t size, int protection, int flags, int fd, off_t offset) {
  const bool shared = fd >= 0 && (flags & MAP_SHARED) != 0;
  if (shared && memory_fails("mmap", fd)) return MAP_FAILED;
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, size, protection, flags, fd, offset));
}
// As posix_fallocate, which the product uses: returns the error.
int take_pages(int fd, off_t begin, off_t size) {
  if (memory_fails("posix_fallocate", fd)) return errno;
  return syscall(SYS_fallocate, fd, 0, begin, size) == 0 ? 0 : errno;
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* data, size_t size) {
  return file_fails("write", fd) ? -1 : syscall(SYS_write, fd, data, size);
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t at) {
  return file_fails("pwrite", fd) ? -1 : syscall(SYS_pwrite64, fd, data, size, at);
}
ssize_t pwrite64(int fd, const void* data, size_t size, off64_t at) {
  return pwrite(fd, data, size, at);
}
int fsync(int fd) {
  return file_fails("fsync", fd) ? -1 : static_cast<int>(syscall(SYS_fsync, fd));
}
int fdatasync(int fd) {
  return file_fails("fdatasync", fd) ? -1 : static_cast<int>(syscall(SYS_fdatasync, fd));
}
int close(int fd) {
  const int flags = static_cast<int>(syscall(SYS_fcntl, fd, F_GETFL));
  // Nothing can be lost with a file that was only read.
  const bool failing = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && file_fails("close", fd);
  const int error = errno;
  const int result = static_cast<int>(syscall(SYS_close, fd));  // as on a network: gone, and failed
  if (failing) errno = error;
  return failing ? -1 : result;
}
int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_at(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_at(AT_FDCWD, path, flags, mode);
}
int openat(int directory, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_at(directory, path, flags, mode);
}
int openat64(int directory, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_at(directory, path, flags, mode);
}
int renameat(int from_directory, const char* from, int to_directory, const char* to) {
  if (file_fails("rename", from_directory, from)) return -1;
  return static_cast<int>(syscall(SYS_renameat2, from_directory, from, to_directory, to, 0));
}
int rename(const char* from, const char* to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }
int mkdir(const char* path, mode_t mode) {
  if (file_fails("mkdir", AT_FDCWD, path)) return -1;
  return static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
int symlink(const char* target, const char* path) {
  if (file_fails("symlink", AT_FDCWD, path)) return -1;
  return static_cast<int>(syscall(SYS_symlinkat, target, AT_FDCWD, path));
}
int unlink(const char* path) { return remove_at("unlink", AT_FDCWD, path, 0); }
int unlinkat(int directory, const char* path, int flags) {
  return remove_at("unlinkat", directory, path, flags);
}
int rmdir(const char* path) { return remove_at("rmdir", AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char* path) {
  const int result = remove_at("remove", AT_FDCWD, path, 0);
  return result != 0 && errno == EISDIR ? rmdir(path) : result;
}
int ftruncate(int fd, off_t size) { return truncate_to(fd, size); }
int ftruncate64(int fd, off64_t size) { return truncate_to(fd, size); }

int memfd_create(const char* name, unsigned flags) {
  const bool ours = plan().kind == Kind::kMemory;
  if (ours && fails(Kind::kMemory, "memfd_create", std::string("/memfd:") + name)) return -1;
  return static_cast<int>(syscall(SYS_memfd_create, name, flags));
}
void* mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset) {
  return map(address, size, protection, flags, fd, offset);
}
void* mmap64(void* address, size_t size, int protection, int flags, int fd, off64_t offset) {
  return map(address, size, protection, flags, fd, offset);
}
int posix_fallocate(int fd, off_t begin, off_t size) { return take_pages(fd, begin, size); }
int posix_fallocate64(int fd, off64_t begin, off64_t size) { return take_pages(fd, begin, size); }

}  // extern "C"
