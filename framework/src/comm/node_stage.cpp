// SPDX-License-Identifier: Apache-2.0
#include "comm/node_stage.hpp"

#include <atomic>
#include <cstring>
#include <span>
#include <utility>

#include "comm/hash.hpp"
#include "comm/shared_error.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

std::size_t published_bytes(const Call& call) {
  return call.kind == Collective::kExchange ? call.bytes.size() : call.data.size_bytes();
}

const void* published_data(const Call& call) {
  return call.kind == Collective::kExchange ? call.bytes.data() : call.data.data;
}

bool same_call(const NodeSlot& a, const NodeSlot& b) {
  const bool same_count = a.count == b.count || a.kind == Collective::kExchange;
  return a.kind == b.kind && a.dtype == b.dtype && a.root == b.root && same_count &&
         a.offsets_hash == b.offsets_hash && a.wire == b.wire;
}

}  // namespace

NodeStage::NodeStage(const Call& call, std::shared_ptr<const NodeSeat> seat, bool may_be_inline)
    : call_(call),
      seat_(std::move(seat)),
      is_inline_(may_be_inline && published_bytes(call) <= NodeSlot::kInlineBytes) {}

void NodeStage::set(Mark mark) const {
  if (!seat_->board) return;
  std::atomic_ref(slot(local_rank()).*mark).store(call_.sequence + 1, std::memory_order_release);
}

bool NodeStage::all_have(Mark mark, std::uint64_t sequence) {
  if (!seat_->board) return true;
  awaited_ = mark;
  awaited_sequence_ = sequence;
  for (std::size_t r = 0; r < local_size(); ++r) {
    const std::atomic_ref value(seat_->board->slot(static_cast<int>(r), sequence).*mark);
    if (value.load(std::memory_order_acquire) < sequence + 1) return false;
  }
  return true;
}

std::string NodeStage::waits_for() const {
  std::vector<int> missing;
  for (std::size_t r = 0; seat_->board && r < local_size(); ++r) {
    const std::atomic_ref mark(seat_->board->slot(static_cast<int>(r), awaited_sequence_).*
                               awaited_);
    if (mark.load(std::memory_order_acquire) < awaited_sequence_ + 1)
      missing.push_back(seat_->ranks[r]);
  }
  return missing.empty() ? std::string() : "rank " + rank_list(missing);
}

bool NodeStage::publish() {
  own_ = static_cast<std::byte*>(const_cast<void*>(published_data(call_)));
  if (!seat_->board) return true;
  const std::uint64_t sequence = call_.sequence;
  if (sequence >= NodeBoard::kSlots && !all_have(&NodeSlot::left, sequence - NodeBoard::kSlots)) {
    return false;
  }
  NodeSlot& own = slot(local_rank());
  own.kind = call_.kind;
  own.dtype = call_.data.dtype;
  own.wire = call_.wire.type;
  own.root = call_.root;
  own.count = call_.kind == Collective::kExchange ? call_.bytes.size() : call_.data.count;
  own.offsets_hash = fnv1a(std::as_bytes(std::span(call_.offsets)));
  own.place = {};
  publish_data();
  set(&NodeSlot::published);
  return true;
}

void NodeStage::publish_data() {
  const std::size_t size_bytes = published_bytes(call_);
  const void* data = published_data(call_);
  if (size_bytes == 0) return;
  if (is_inline_) {
    std::memcpy(slot(local_rank()).data, data, size_bytes);
    return;
  }
  if (const auto place = seat_->memory->arena->find(data, size_bytes)) {
    slot(local_rank()).place = *place;
    return;
  }
  staged_ = seat_->memory->scratch.take(size_bytes);
  std::memcpy(staged_.data(), data, size_bytes);
  slot(local_rank()).place = seat_->memory->arena->find(staged_.data(), size_bytes).value();
  own_ = staged_.data();
}

bool NodeStage::arrive() {
  if (!all_have(&NodeSlot::published)) return false;
  data_.clear();
  data_.reserve(local_size());
  if (!seat_->board) {
    data_.push_back(own_);
    return true;
  }
  for (std::size_t r = 0; r < local_size(); ++r) {
    const NodeSlot& other = slot(r);
    if (!same_call(other, slot(local_rank()))) {
      const Call called{.kind = other.kind,
                        .sequence = call_.sequence,
                        .data = {.data = nullptr,
                                 .count = static_cast<std::size_t>(other.count),
                                 .dtype = other.dtype}};
      throw CommError(
          "rank " + std::to_string(seat_->ranks[r]) + " calls " + describe(called) +
          " here; all must call the same with the same count, dtype, offsets, root and wire");
    }
    const bool here = other.place.slab.pid == 0;
    data_.push_back(here ? slot(r).data : seat_->memory->arena->address_of(other.place));
  }
  return true;
}

std::size_t NodeStage::text_bytes(std::size_t local_rank) const {
  return seat_->board ? static_cast<std::size_t>(slot(local_rank).count) : call_.bytes.size();
}

std::byte* NodeStage::make_result(std::size_t size_bytes) {
  result_ = seat_->memory->scratch.take(size_bytes);
  NodeSlot& own = slot(local_rank());
  own.result = seat_->memory->arena->find(result_.data(), size_bytes).value();
  own.result_bytes = size_bytes;
  return result_.data();
}

std::string_view NodeStage::result_of(std::size_t local_rank) const {
  const NodeSlot& other = slot(local_rank);
  const std::byte* data = seat_->memory->arena->address_of(other.result);
  return {reinterpret_cast<const char*>(data), static_cast<std::size_t>(other.result_bytes)};
}

void NodeStage::copy_out(std::size_t begin, std::size_t end) {
  if (result_.size_bytes() > 0) seat_->memory->scratch.give_back(std::move(result_));
  if (!is_staged()) return;
  const std::size_t size = size_of(call_.data.dtype);
  if (begin < end) {
    std::memcpy(static_cast<std::byte*>(call_.data.data) + begin * size,
                staged_.data() + begin * size, (end - begin) * size);
  }
  seat_->memory->scratch.give_back(std::move(staged_));
}

}  // namespace trireme
