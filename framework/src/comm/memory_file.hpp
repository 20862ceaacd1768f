// SPDX-License-Identifier: Apache-2.0
// Memory without a name that the processes of a node map. The kernel gives it back when the last of
// them has let go, even after kill -9; no limit of /dev/shm binds it. Throws EnvironmentError with
// the size where the machine has no more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/files.hpp"

namespace trireme {

// Where another process finds the memory: /proc/PID/fd/FD. The inode tells whether that path means
// the same file for both. Plain numbers, so that it may itself lie in shared memory.
struct MemoryHandle {
  std::int64_t pid = 0;
  std::int64_t fd = -1;
  std::uint64_t size_bytes = 0;
  std::uint64_t inode = 0;

  bool operator==(const MemoryHandle&) const = default;
};
std::string pack(const MemoryHandle& handle);
MemoryHandle unpack(const std::string& text);

// Pages in this process's address space; unmapped by the destructor.
class Mapping {
 public:
  Mapping() = default;
  Mapping(void* data, std::size_t size_bytes) : data_(data), size_bytes_(size_bytes) {}
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t size_bytes() const { return size_bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t size_bytes_ = 0;
};

// Throws unless the kernel can give this many bytes more without swapping.
void require_available(std::size_t size_bytes);

enum class Access { kRead, kWrite };

// Maps all of the memory, of any process of this node. size_bytes 0: nothing.
Mapping map_memory(const MemoryHandle& handle, Access access);

class MemoryFile {
 public:
  MemoryFile();  // empty

  // What was there before stays, new bytes are zero. Takes no pages: a touch takes them, and is a
  // SIGBUS where the machine has none.
  void resize(std::size_t size_bytes);
  // Takes the pages of this range, so that touching them cannot fail.
  void reserve(std::size_t begin, std::size_t size_bytes);
  // Gives the pages of this range back, whoever maps them; they are zero afterwards.
  void release(std::size_t begin, std::size_t size_bytes) noexcept;
  // From now on nobody can write or resize it. No writable mapping may exist.
  void seal();

  MemoryHandle handle() const;

 private:
  FileDescriptor fd_;
  std::size_t size_bytes_ = 0;
};

}  // namespace trireme
