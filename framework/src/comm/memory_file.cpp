// SPDX-License-Identifier: Apache-2.0
#include "comm/memory_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

#include "trireme/error.hpp"

namespace trireme {
namespace {

[[noreturn]] void fail(const std::string& what) {
  const std::string reason = std::strerror(errno);
  throw EnvironmentError("memory shared on this node: " + what + ": " + reason);
}

// What the kernel thinks it can give without swapping.
std::size_t available_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  std::size_t kibibytes = 0;
  while (meminfo >> name >> kibibytes) {
    if (name == "MemAvailable:") return kibibytes << 10;
    meminfo.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  throw EnvironmentError("/proc/meminfo has no line MemAvailable; is /proc mounted?");
}

// Where this process may not have all the addresses that it wants: the limit, and the way out; else
// "". Leaves errno as it is.
std::string address_limit_hint() {
  const int before = errno;
  std::string hint;
  rlimit limit = {};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    hint = "; `ulimit -v` allows this process " + std::to_string(limit.rlim_cur) +
           " bytes of addresses: raise it, or start with --ranks-per-node 1, which shares none";
  }
  errno = before;
  return hint;
}

std::uint64_t inode_of(int fd) {
  struct stat status = {};
  if (fstat(fd, &status) != 0) fail("fstat");
  return status.st_ino;
}

}  // namespace

std::string pack(const MemoryHandle& handle) {
  std::ostringstream text;
  text << handle.pid << ' ' << handle.fd << ' ' << handle.size_bytes << ' ' << handle.inode;
  return text.str();
}

MemoryHandle unpack(const std::string& text) {
  std::istringstream in(text);
  MemoryHandle handle;
  in >> handle.pid >> handle.fd >> handle.size_bytes >> handle.inode;
  return handle;
}

Mapping::Mapping(Mapping&& other) noexcept { *this = std::move(other); }

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, size_bytes_);  // what mmap returned: cannot fail
}

Mapping map_memory(const MemoryHandle& handle, Access access) {
  const std::string path =
      "/proc/" + std::to_string(handle.pid) + "/fd/" + std::to_string(handle.fd);
  const std::string hint =
      "; the ranks of a node must share its processes (one container), and that one may have ended";
  const bool writes = access == Access::kWrite;
  const FileDescriptor file(open(path.c_str(), (writes ? O_RDWR : O_RDONLY) | O_CLOEXEC));
  if (file.get() < 0) fail("cannot open " + path + " of another rank" + hint);
  if (inode_of(file.get()) != handle.inode) {
    throw EnvironmentError("memory shared on this node: " + path +
                           " is not the memory of another rank" + hint);
  }
  if (handle.size_bytes == 0) return {};
  void* data = mmap(nullptr, handle.size_bytes, writes ? PROT_READ | PROT_WRITE : PROT_READ,
                    MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) {
    fail("cannot map " + std::to_string(handle.size_bytes) + " bytes of " + path +
         address_limit_hint());
  }
  return {data, handle.size_bytes};
}

void require_available(std::size_t size_bytes) {
  const std::size_t available = available_bytes();
  if (size_bytes <= available) return;
  throw EnvironmentError("memory shared on this node: cannot take " + std::to_string(size_bytes) +
                         " bytes: the machine has " + std::to_string(available) +
                         " available; use fewer ranks, a smaller model or a smaller data set");
}

MemoryFile::MemoryFile() : fd_(memfd_create("trireme", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  if (fd_.get() < 0) fail("memfd_create");
}

void MemoryFile::resize(std::size_t size_bytes) {
  if (ftruncate(fd_.get(), static_cast<off_t>(size_bytes)) != 0) {
    fail("cannot take " + std::to_string(size_bytes) + " bytes");
  }
  size_bytes_ = size_bytes;
}

void MemoryFile::reserve(std::size_t begin, std::size_t size_bytes) {
  if (size_bytes == 0) return;
  require_available(size_bytes);  // posix_fallocate goes on until the kernel kills processes
  const int error =
      posix_fallocate(fd_.get(), static_cast<off_t>(begin), static_cast<off_t>(size_bytes));
  if (error == 0) return;
  errno = error;  // posix_fallocate returns it
  fail("cannot take " + std::to_string(size_bytes) +
       " bytes; the machine or its container has not enough memory");
}

void MemoryFile::release(std::size_t begin, std::size_t size_bytes) noexcept {
  // Cannot fail for a range of a memory file; if it did, the pages would stay until the end.
  static_cast<void>(fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                              static_cast<off_t>(begin), static_cast<off_t>(size_bytes)));
}

void MemoryFile::seal() {
  if (fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
    fail("F_ADD_SEALS");
  }
}

MemoryHandle MemoryFile::handle() const {
  return {
      .pid = getpid(), .fd = fd_.get(), .size_bytes = size_bytes_, .inode = inode_of(fd_.get())};
}

}  // namespace trireme
