// SPDX-License-Identifier: Apache-2.0
#include "comm/node_arena.hpp"

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

constexpr std::size_t kPage = 4096;

std::size_t whole_pages(std::size_t size_bytes) { return (size_bytes + kPage - 1) / kPage * kPage; }

}  // namespace

NodeArena::Slab::Slab(std::size_t size_bytes) {
  file.resize(size_bytes);
  handle = file.handle();
  mapping = map_memory(handle, Access::kWrite);
}

NodeArena::NodeArena(std::size_t slab_bytes) : slab_bytes_(whole_pages(slab_bytes)) {
  slabs_.push_back(std::make_unique<Slab>(slab_bytes_));
}

Buffer NodeArena::allocate(std::size_t size_bytes) {
  if (size_bytes == 0) return {};
  const std::size_t taken = whole_pages(size_bytes);
  const std::lock_guard lock(mutex_);
  if (slabs_.back()->used_bytes + taken > slabs_.back()->mapping.size_bytes()) {
    slabs_.push_back(std::make_unique<Slab>(std::max(slab_bytes_, taken)));
  }
  Slab& slab = *slabs_.back();
  slab.file.reserve(slab.used_bytes, taken);
  std::byte* data = slab.mapping.data() + slab.used_bytes;
  slab.used_bytes += taken;
  return Buffer(data, size_bytes,
                [arena = shared_from_this(), &slab](void* memory, std::size_t size) {
                  arena->free(slab, memory, size);
                });
}

void NodeArena::free(Slab& slab, void* data, std::size_t size_bytes) {
  const auto begin = static_cast<std::size_t>(static_cast<std::byte*>(data) - slab.mapping.data());
  const std::lock_guard lock(mutex_);
  slab.file.release(begin, whole_pages(size_bytes));
}

std::optional<NodePlace> NodeArena::find(const void* data, std::size_t size_bytes) const {
  const auto* begin = static_cast<const std::byte*>(data);
  const std::lock_guard lock(mutex_);
  for (const auto& slab : slabs_) {
    const std::byte* first = slab->mapping.data();
    if (begin < first || begin + size_bytes > first + slab->used_bytes) continue;
    return NodePlace{.slab = slab->handle, .offset = static_cast<std::uint64_t>(begin - first)};
  }
  return std::nullopt;
}

std::byte* NodeArena::address_of(const NodePlace& place) {
  const std::lock_guard lock(mutex_);
  Mapping& mapping = others_[place.slab.inode];
  if (mapping.data() == nullptr) mapping = map_memory(place.slab, Access::kWrite);
  return mapping.data() + place.offset;
}

}  // namespace trireme
