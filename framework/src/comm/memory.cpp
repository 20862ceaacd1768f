// SPDX-License-Identifier: Apache-2.0
#include "comm/memory.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "trireme/error.hpp"

namespace trireme {
namespace {

constexpr std::size_t kAlignment = 64;  // a cache line, and the widest vector
constexpr std::size_t kMapFrom = 64 << 10;
constexpr std::size_t kHugePage = 2 << 20;

[[noreturn]] void fail(std::size_t size_bytes) {
  throw Error(ExitCode::kInternal, "cannot allocate " + std::to_string(size_bytes) +
                                       " bytes for communication: out of memory; use fewer ranks "
                                       "on this node or a smaller model or batch");
}

Buffer allocate_small(std::size_t size_bytes) {
  const std::size_t rounded = (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* data = std::aligned_alloc(kAlignment, rounded);
  if (data == nullptr) fail(size_bytes);
  std::memset(data, 0, rounded);
  return Buffer(data, size_bytes, [](void* memory, std::size_t) { std::free(memory); });
}

}  // namespace

Buffer allocate_pages(std::size_t size_bytes) {
  if (size_bytes == 0) return {};
  if (size_bytes < kMapFrom) return allocate_small(size_bytes);
  void* data =
      mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) fail(size_bytes);
  Buffer buffer(data, size_bytes, [](void* memory, std::size_t size) {
    // Fails for addresses that were never mapped only.
    TRIREME_ASSERT(munmap(memory, size) == 0, "munmap");
  });
  if (size_bytes >= kHugePage) {
    // Advice: a kernel without huge pages answers EINVAL, and small pages do as well.
    static_cast<void>(madvise(data, size_bytes, MADV_HUGEPAGE));
  }
  return buffer;
}

}  // namespace trireme
