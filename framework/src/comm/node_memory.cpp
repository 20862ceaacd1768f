// SPDX-License-Identifier: Apache-2.0
#include "comm/node_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "comm/shared_error.hpp"
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

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);  // of memory: nothing is written back that could fail
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

// Memory without a name that other processes open as /proc/PID/fd/FD.
class MemoryFile : public NodeWriter {
 public:
  MemoryFile() : fd_(memfd_create("trireme", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    if (fd_.get() < 0) fail("memfd_create");
  }
  ~MemoryFile() override { unmap(); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::span<std::byte> resize(std::size_t size_bytes) override {
    // posix_fallocate takes pages until the kernel kills processes, any of the machine's.
    const std::size_t available = available_bytes();
    if (size_bytes > size_bytes_ && size_bytes - size_bytes_ > available) {
      throw EnvironmentError("memory shared on this node: cannot take " +
                             std::to_string(size_bytes) + " bytes: the machine has " +
                             std::to_string(available) + " available; use a smaller data set");
    }
    unmap();
    if (ftruncate(fd_.get(), static_cast<off_t>(size_bytes)) != 0) {
      fail("cannot take " + std::to_string(size_bytes) + " bytes");
    }
    size_bytes_ = size_bytes;
    if (size_bytes == 0) return {};
    reserve();
    data_ = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    if (data_ == MAP_FAILED) {
      data_ = nullptr;
      fail("cannot map " + std::to_string(size_bytes) + " bytes");
    }
    return {static_cast<std::byte*>(data_), size_bytes};
  }

  // From now on nobody can write it.
  void seal() {
    unmap();  // a writable mapping forbids the seal
    if (fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
      fail("F_ADD_SEALS");
    }
  }

  std::size_t size_bytes() const { return size_bytes_; }
  int fd() const { return fd_.get(); }

 private:
  // Without it the first touch of a page that the machine cannot give is a SIGBUS.
  void reserve() {
    const int error = posix_fallocate(fd_.get(), 0, static_cast<off_t>(size_bytes_));
    if (error == 0) return;
    errno = error;  // posix_fallocate returns it
    fail("cannot take " + std::to_string(size_bytes_) +
         " bytes; the machine or its container has not enough memory");
  }

  void unmap() noexcept {
    if (data_ != nullptr) munmap(data_, size_bytes_);  // what mmap returned: cannot fail
    data_ = nullptr;
  }

  const FileDescriptor fd_;
  void* data_ = nullptr;
  std::size_t size_bytes_ = 0;
};

// What rank 0 tells the others. The inode tells whether the path means the same file for both.
struct Handle {
  long pid = 0;
  int fd = -1;
  std::size_t size_bytes = 0;
  unsigned long inode = 0;
};

unsigned long inode_of(int fd) {
  struct stat status = {};
  if (fstat(fd, &status) != 0) fail("fstat");
  return status.st_ino;
}

std::string pack(const Handle& handle) {
  std::ostringstream text;
  text << handle.pid << ' ' << handle.fd << ' ' << handle.size_bytes << ' ' << handle.inode;
  return text.str();
}

Handle unpack(const std::string& text) {
  std::istringstream in(text);
  Handle handle;
  in >> handle.pid >> handle.fd >> handle.size_bytes >> handle.inode;
  return handle;
}

std::shared_ptr<const NodeBytes> map(const Handle& handle) {
  const std::string path =
      "/proc/" + std::to_string(handle.pid) + "/fd/" + std::to_string(handle.fd);
  const std::string hint = "; the ranks of a node must share its processes (one container)";
  const FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) fail("cannot open " + path + " of rank 0" + hint);
  if (inode_of(fd.get()) != handle.inode) {
    throw EnvironmentError("memory shared on this node: " + path + " is not rank 0's memory" +
                           hint);
  }
  if (handle.size_bytes == 0) return std::make_shared<const NodeBytes>(nullptr, 0);
  const void* data = mmap(nullptr, handle.size_bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) {
    fail("cannot map " + std::to_string(handle.size_bytes) + " bytes of " + path);
  }
  return std::make_shared<const NodeBytes>(data, handle.size_bytes);
}

}  // namespace

NodeBytes::~NodeBytes() {
  if (data_ != nullptr) munmap(const_cast<void*>(data_), size_bytes_);  // from mmap: cannot fail
}

std::shared_ptr<const NodeBytes> share_on_node(Communicator& node,
                                               const std::function<void(NodeWriter&)>& fill) {
  std::optional<MemoryFile> file;  // rank 0's, until all have mapped it
  std::string packed;
  collectively(node, [&] {
    if (node.rank() != 0) return;
    fill(file.emplace());
    file->seal();
    packed = pack({getpid(), file->fd(), file->size_bytes(), inode_of(file->fd())});
  });
  const Handle handle = unpack(node.exchange(packed).front());
  std::shared_ptr<const NodeBytes> bytes;
  collectively(node, [&] { bytes = map(handle); });
  return bytes;
}

}  // namespace trireme
