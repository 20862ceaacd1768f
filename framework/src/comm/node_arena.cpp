// SPDX-License-Identifier: Apache-2.0
#include "comm/node_arena.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
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

std::pair<NodeArena::Slab*, std::byte*> NodeArena::take(std::size_t size_bytes) {
  const std::size_t taken = whole_pages(size_bytes);
  if (slabs_.back()->used_bytes + taken > slabs_.back()->mapping.size_bytes()) {
    slabs_.push_back(std::make_unique<Slab>(std::max(slab_bytes_, taken)));
  }
  Slab& slab = *slabs_.back();
  slab.file.reserve(slab.used_bytes, taken);
  std::byte* data = slab.mapping.data() + slab.used_bytes;
  slab.used_bytes += taken;
  return {&slab, data};
}

Buffer NodeArena::allocate(std::size_t size_bytes) {
  if (size_bytes == 0) return {};
  const std::lock_guard lock(mutex_);
  const auto [slab, data] = take(size_bytes);
  return Buffer(data, size_bytes,
                [arena = shared_from_this(), slab = slab](void* memory, std::size_t size) {
                  arena->free(*slab, memory, size);
                });
}

// Before the memory stands a page with the number of processes that use it.
Buffer NodeArena::allocate_shared(std::size_t size_bytes, std::size_t num_users,
                                  std::string& place) {
  if (size_bytes == 0) return {};
  const std::lock_guard lock(mutex_);
  const auto [slab, header] = take(kPage + size_bytes);
  std::atomic_ref(*reinterpret_cast<std::uint64_t*>(header)).store(num_users);
  const NodePlace where{.slab = slab->handle,
                        .offset = static_cast<std::uint64_t>(header - slab->mapping.data())};
  place.assign(reinterpret_cast<const char*>(&where), sizeof(where));
  return shared_buffer(header, size_bytes);
}

Buffer NodeArena::map_shared(std::size_t size_bytes, const std::string& place) {
  if (size_bytes == 0) return {};
  NodePlace where;
  std::memcpy(&where, place.data(), sizeof(where));
  return shared_buffer(address_of(where), size_bytes);
}

Buffer NodeArena::shared_buffer(std::byte* header, std::size_t size_bytes) {
  return Buffer(header + kPage, size_bytes,
                [arena = shared_from_this()](void* memory, std::size_t size) {
                  std::byte* counter = static_cast<std::byte*>(memory) - kPage;
                  std::atomic_ref users(*reinterpret_cast<std::uint64_t*>(counter));
                  if (users.fetch_sub(1) > 1) return;
                  // Gives the pages back whoever's file they are in; a failure keeps them.
                  static_cast<void>(madvise(counter, kPage + whole_pages(size), MADV_REMOVE));
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
  const auto place_in = [&](const MemoryHandle& slab, const std::byte* first,
                            std::size_t length) -> std::optional<NodePlace> {
    if (begin < first || begin + size_bytes > first + length) return std::nullopt;
    return NodePlace{.slab = slab, .offset = static_cast<std::uint64_t>(begin - first)};
  };
  for (const auto& slab : slabs_) {
    if (const auto place = place_in(slab->handle, slab->mapping.data(), slab->used_bytes))
      return place;
  }
  for (const auto& [inode, view] : views_) {
    if (const auto place = place_in(view.handle, view.mapping.data(), view.mapping.size_bytes()))
      return place;
  }
  return std::nullopt;
}

std::byte* NodeArena::address_of(const NodePlace& place) {
  const std::lock_guard lock(mutex_);
  View& view = views_[place.slab.inode];
  if (view.mapping.data() == nullptr) {
    view = {.handle = place.slab, .mapping = map_memory(place.slab, Access::kWrite)};
  }
  return view.mapping.data() + place.offset;
}

}  // namespace trireme
