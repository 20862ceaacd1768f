// SPDX-License-Identifier: Apache-2.0
#include "comm/node_operation.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include "comm/hash.hpp"
#include "comm/shared_error.hpp"
#include "comm/sum.hpp"

namespace trireme {
namespace {

// Work of one step(), so that operations on the same thread take turns.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

std::size_t published_bytes(const Call& call) {
  return call.kind == Collective::kExchange ? call.bytes.size() : call.data.size_bytes();
}

std::vector<std::size_t> part_offsets(const Call& call, int size) {
  return call.kind == Collective::kAllReduce ? even_offsets(call.data.count, size) : call.offsets;
}

bool same_call(const NodeSlot& a, const NodeSlot& b) {
  const bool same_count = a.count == b.count || a.kind == Collective::kExchange;
  return a.kind == b.kind && a.dtype == b.dtype && a.root == b.root && same_count &&
         a.offsets_hash == b.offsets_hash;
}

}  // namespace

NodeOperation::NodeOperation(Call call, int rank, std::shared_ptr<const NodeBoard> board,
                             NodeMemory& memory, std::chrono::milliseconds timeout)
    : CollectiveTask(std::move(call), rank, board->size(), timeout),
      board_(std::move(board)),
      memory_(memory),
      is_inline_(published_bytes(this->call()) <= NodeSlot::kInlineBytes),
      steps_(steps_of(this->call().kind, is_inline_)),
      offsets_(part_offsets(this->call(), size())) {}

std::span<const NodeOperation::Step> NodeOperation::steps_of(Collective kind, bool is_inline) {
  using Op = NodeOperation;
  static constexpr std::array<Step, 4> kSmallAllReduce{&Op::publish, &Op::arrive, &Op::sum_all,
                                                       &Op::leave};
  static constexpr std::array<Step, 8> kAllReduce{
      &Op::publish,    &Op::arrive, &Op::sum_own_part, &Op::all_reduced,
      &Op::copy_parts, &Op::leave,  &Op::all_left,     &Op::copy_out};
  static constexpr std::array<Step, 6> kReduceScatter{
      &Op::publish, &Op::arrive, &Op::sum_own_part, &Op::all_reduced, &Op::leave, &Op::copy_out};
  static constexpr std::array<Step, 6> kAllGather{&Op::publish, &Op::arrive,   &Op::copy_parts,
                                                  &Op::leave,   &Op::all_left, &Op::copy_out};
  static constexpr std::array<Step, 6> kBroadcast{&Op::publish, &Op::arrive,   &Op::copy_root,
                                                  &Op::leave,   &Op::all_left, &Op::copy_out};
  static constexpr std::array<Step, 5> kExchange{&Op::publish, &Op::arrive, &Op::read_texts,
                                                 &Op::leave, &Op::all_left};
  static constexpr std::array<Step, 3> kBarrier{&Op::publish, &Op::arrive, &Op::leave};
  // Inline data stays in its slot until all have left, so nobody waits for those who read it.
  static constexpr std::array<Step, 4> kSmallReduceScatter{&Op::publish, &Op::arrive,
                                                           &Op::sum_own_part, &Op::leave};
  static constexpr std::array<Step, 4> kSmallAllGather{&Op::publish, &Op::arrive, &Op::copy_parts,
                                                       &Op::leave};
  static constexpr std::array<Step, 4> kSmallBroadcast{&Op::publish, &Op::arrive, &Op::copy_root,
                                                       &Op::leave};
  static constexpr std::array<Step, 4> kSmallExchange{&Op::publish, &Op::arrive, &Op::read_texts,
                                                      &Op::leave};
  const auto choose = [&](std::span<const Step> small, std::span<const Step> large) {
    return is_inline ? small : large;
  };
  switch (kind) {
    case Collective::kAllReduce:
      return choose(kSmallAllReduce, kAllReduce);
    case Collective::kReduceScatter:
      return choose(kSmallReduceScatter, kReduceScatter);
    case Collective::kAllGather:
      return choose(kSmallAllGather, kAllGather);
    case Collective::kBroadcast:
      return choose(kSmallBroadcast, kBroadcast);
    case Collective::kExchange:
      return choose(kSmallExchange, kExchange);
    case Collective::kBarrier:
      return kBarrier;
  }
  TRIREME_ASSERT(false, "not a collective");
}

Task::Advance NodeOperation::advance() {
  const std::size_t first_step = next_step_, first_done = done_;
  while (next_step_ < steps_.size()) {
    if (!(this->*steps_[next_step_])()) {
      const bool moved = next_step_ != first_step || done_ != first_done;
      return moved ? Advance::kMoved : Advance::kWaiting;
    }
    ++next_step_;
    done_ = 0;
  }
  return Advance::kComplete;
}

std::string NodeOperation::waits_for() const {
  std::vector<int> missing;
  for (int r = 0; r < size(); ++r) {
    const std::atomic_ref mark(board_->slot(r, awaited_sequence_).*awaited_);
    if (mark.load(std::memory_order_acquire) < awaited_sequence_ + 1) missing.push_back(r);
  }
  return "rank " + rank_list(missing);
}

void NodeOperation::set(Mark mark) const {
  std::atomic_ref(own_slot().*mark).store(call().sequence + 1, std::memory_order_release);
}

bool NodeOperation::all_have(Mark mark, std::uint64_t sequence) {
  awaited_ = mark;
  awaited_sequence_ = sequence;
  for (int r = 0; r < size(); ++r) {
    const std::atomic_ref value(board_->slot(r, sequence).*mark);
    if (value.load(std::memory_order_acquire) < sequence + 1) return false;
  }
  return true;
}

bool NodeOperation::publish() {
  const std::uint64_t sequence = call().sequence;
  if (sequence >= NodeBoard::kSlots && !all_have(&NodeSlot::left, sequence - NodeBoard::kSlots)) {
    return false;
  }
  NodeSlot& slot = own_slot();
  slot.kind = call().kind;
  slot.dtype = call().data.dtype;
  slot.root = call().root;
  slot.count = call().kind == Collective::kExchange ? call().bytes.size() : call().data.count;
  slot.offsets_hash = fnv1a(std::as_bytes(std::span(call().offsets)));
  slot.place = {};
  publish_data();
  set(&NodeSlot::published);
  return true;
}

void NodeOperation::publish_data() {
  const std::size_t size_bytes = published_bytes(call());
  const void* data = call().kind == Collective::kExchange ? call().bytes.data() : call().data.data;
  result_ = static_cast<std::byte*>(call().data.data);
  if (size_bytes == 0) return;
  if (is_inline_) {
    std::memcpy(own_slot().data, data, size_bytes);
    return;
  }
  if (const auto place = memory_.arena->find(data, size_bytes)) {
    own_slot().place = *place;
    return;
  }
  staged_ = memory_.scratch.take(size_bytes);
  std::memcpy(staged_.data(), data, size_bytes);
  own_slot().place = memory_.arena->find(staged_.data(), size_bytes).value();
  result_ = staged_.data();
}

std::byte* NodeOperation::data_of(int other) const {
  NodeSlot& slot = board_->slot(other, call().sequence);
  return slot.place.slab.pid == 0 ? slot.data : memory_.arena->address_of(slot.place);
}

bool NodeOperation::arrive() {
  if (!all_have(&NodeSlot::published, call().sequence)) return false;
  data_.clear();
  for (int r = 0; r < size(); ++r) {
    const NodeSlot& slot = board_->slot(r, call().sequence);
    if (!same_call(slot, own_slot())) {
      const Call other{
          .kind = slot.kind,
          .sequence = call().sequence,
          .data = {
              .data = nullptr, .count = static_cast<std::size_t>(slot.count), .dtype = slot.dtype}};
      throw CommError("rank " + std::to_string(r) + " calls " + trireme::describe(other) +
                      " here; all must call the same with the same count, dtype, offsets and root");
    }
    data_.push_back(data_of(r));
  }
  return true;
}

bool NodeOperation::sum_all() {
  const std::vector<const std::byte*> parts(data_.begin(), data_.end());
  sum_in_order(call().data.dtype, parts, result_, call().data.count);
  return true;
}

bool NodeOperation::sum_own_part() {
  const std::size_t begin = part_begin(rank()) + done_;
  const std::size_t count =
      std::min(part_end(rank()) - begin, kPieceBytes / size_of(call().data.dtype));
  std::vector<const std::byte*> parts;
  for (const std::byte* data : data_) parts.push_back(data + bytes(begin));
  sum_in_order(call().data.dtype, parts, result_ + bytes(begin), count);
  done_ += count;
  if (begin + count < part_end(rank())) return false;
  set(&NodeSlot::reduced);
  return true;
}

bool NodeOperation::copy_parts() {
  // done_ runs over all elements; own ones are skipped.
  std::size_t piece = kPieceBytes / size_of(call().data.dtype);
  while (done_ < call().data.count && piece > 0) {
    const auto next = std::upper_bound(offsets_.begin(), offsets_.end(), done_);
    const int owner = static_cast<int>(next - offsets_.begin()) - 1;
    const std::size_t count = owner == rank() ? *next - done_ : std::min(*next - done_, piece);
    if (owner != rank()) {
      std::memcpy(result_ + bytes(done_), data_[static_cast<std::size_t>(owner)] + bytes(done_),
                  bytes(count));
      piece -= count;
    }
    done_ += count;
  }
  return done_ == call().data.count;
}

bool NodeOperation::copy_root() {
  if (rank() == call().root) return true;
  const std::size_t count =
      std::min(call().data.count - done_, kPieceBytes / size_of(call().data.dtype));
  if (count > 0) {
    std::memcpy(result_ + bytes(done_), data_[static_cast<std::size_t>(call().root)] + bytes(done_),
                bytes(count));
  }
  done_ += count;
  return done_ == call().data.count;
}

bool NodeOperation::read_texts() {
  for (int r = 0; r < size(); ++r) {
    texts.emplace_back(reinterpret_cast<const char*>(data_[static_cast<std::size_t>(r)]),
                       board_->slot(r, call().sequence).count);
  }
  return true;
}

bool NodeOperation::all_reduced() { return all_have(&NodeSlot::reduced, call().sequence); }

bool NodeOperation::all_left() { return all_have(&NodeSlot::left, call().sequence); }

bool NodeOperation::leave() {
  set(&NodeSlot::left);
  return true;
}

bool NodeOperation::copy_out() {
  if (staged_.size_bytes() == 0) return true;
  const bool own_part = call().kind == Collective::kReduceScatter;
  const std::size_t begin = own_part ? part_begin(rank()) : 0;
  const std::size_t end = own_part ? part_end(rank()) : call().data.count;
  std::memcpy(element(begin), staged_.data() + bytes(begin), bytes(end - begin));
  memory_.scratch.give_back(std::move(staged_));
  return true;
}

}  // namespace trireme
