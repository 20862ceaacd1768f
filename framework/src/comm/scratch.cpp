// SPDX-License-Identifier: Apache-2.0
#include "comm/scratch.hpp"

#include <bit>
#include <utility>

namespace trireme {

ScratchPool::ScratchPool(std::function<Buffer(std::size_t)> allocate)
    : allocate_(std::move(allocate)) {}

Buffer ScratchPool::take(std::size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->size_bytes() < size_bytes) continue;
    if (best == free_.end() || it->size_bytes() < best->size_bytes()) best = it;
  }
  // Powers of two, so that sizes that differ a little share their memory.
  if (best == free_.end()) return allocate_(std::bit_ceil(size_bytes));
  Buffer buffer = std::move(*best);
  free_.erase(best);
  return buffer;
}

void ScratchPool::give_back(Buffer buffer) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(buffer));
}

}  // namespace trireme
