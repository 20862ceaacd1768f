// SPDX-License-Identifier: Apache-2.0
#include "comm/node_operation.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "comm/sum.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

// Work of one step(), so that operations on the same thread take turns.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

// A sum that all want fetches less from the others' cores when each rank sums and writes its part,
// but its callers wait for each other once more.
constexpr std::size_t kInlineSumBytes = std::size_t{4} << 10;

constexpr std::size_t kMiddlingBytes = std::size_t{2} << 20;  // summed in some 100 us

// Memory of the arena may be the same for all ranks: then nobody may copy into it, late or at all,
// which only the places tell.
bool may_be_inline(const Call& call, const NodeSeat& seat) {
  const bool copies = call.kind == Collective::kAllGather || call.kind == Collective::kBroadcast;
  if (call.kind == Collective::kAllReduce && call.data.size_bytes() > kInlineSumBytes) return false;
  return !copies || !seat.memory || call.data.count == 0 ||
         !seat.memory->arena->find(call.data.data, call.data.size_bytes());
}

// [size + 1]
std::vector<std::size_t> part_offsets(const Call& call, int size) {
  if (call.kind == Collective::kAllReduce) return even_offsets(call.data.count, size);
  return call.kind == Collective::kNodeReduceScatter ? offsets_of_parts(call.offsets, size)
                                                     : call.offsets;
}

}  // namespace

NodeOperation::NodeOperation(Call call, std::shared_ptr<const NodeSeat> seat,
                             std::chrono::milliseconds timeout)
    : CollectiveTask(std::move(call), seat->local_rank, static_cast<int>(seat->size()), timeout),
      stage_(this->call(), seat, may_be_inline(this->call(), *seat)),
      steps_(steps_of(this->call().kind, stage_.is_inline())),
      offsets_(stage_.is_inline() && this->call().kind == Collective::kAllReduce
                   ? std::vector<std::size_t>()  // summed as a whole
                   : part_offsets(this->call(), size())) {}

std::span<const NodeOperation::Step> NodeOperation::steps_of(Collective kind, bool is_inline) {
  using Op = NodeOperation;
  static constexpr std::array<Step, 4> kSmallAllReduce{&Op::publish, &Op::arrive, &Op::sum_all,
                                                       &Op::leave};
  static constexpr std::array<Step, 6> kAllReduce{&Op::publish,     &Op::arrive, &Op::sum_for_all,
                                                  &Op::all_reduced, &Op::leave,  &Op::copy_out};
  static constexpr std::array<Step, 6> kReduceScatter{
      &Op::publish, &Op::arrive, &Op::sum_own_part, &Op::all_reduced, &Op::leave, &Op::copy_out};
  static constexpr std::array<Step, 6> kAllGather{&Op::publish, &Op::arrive,   &Op::copy_parts,
                                                  &Op::leave,   &Op::all_left, &Op::copy_out};
  static constexpr std::array<Step, 6> kBroadcast{&Op::publish, &Op::arrive,   &Op::copy_root,
                                                  &Op::leave,   &Op::all_left, &Op::copy_out};
  static constexpr std::array<Step, 6> kExchange{&Op::publish, &Op::arrive,   &Op::read_texts,
                                                 &Op::leave,   &Op::all_left, &Op::copy_out};
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
    case Collective::kNodeReduceScatter:
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

bool NodeOperation::is_urgent() const {
  if (next_step_ == 0) return true;
  if (stage_.is_inline()) return false;
  const Collective kind = call().kind;
  const bool is_waited_for =
      kind != Collective::kReduceScatter && kind != Collective::kNodeReduceScatter;
  return !is_waited_for || call().data.size_bytes() > kMiddlingBytes;
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

bool NodeOperation::sum_all() {
  sum_in_order(call().data.dtype, {stage_.data().data(), stage_.data().size()}, element(0),
               call().data.count);
  return true;
}

bool NodeOperation::sum_own_part() {
  const std::array<std::byte*, 1> own{stage_.own()};
  return sum_part(own);
}

bool NodeOperation::sum_for_all() { return sum_part(stage_.data()); }

bool NodeOperation::sum_part(std::span<std::byte* const> places) {
  const std::size_t begin = part_begin(rank()) + done_;
  const std::size_t count =
      std::min(part_end(rank()) - begin, kPieceBytes / size_of(call().data.dtype));
  std::vector<const std::byte*> parts;
  for (const std::byte* data : stage_.data()) parts.push_back(data + bytes(begin));
  std::vector<std::byte*> outs;
  for (std::byte* place : places) outs.push_back(place + bytes(begin));
  sum_in_order(call().data.dtype, parts, outs, count);
  done_ += count;
  if (begin + count < part_end(rank())) return false;
  stage_.set(&NodeSlot::reduced);
  return true;
}

bool NodeOperation::copy_parts() {
  const std::byte* own = stage_.data()[stage_.local_rank()];
  // done_ runs over all elements; what stands here already is skipped.
  std::size_t piece = kPieceBytes / size_of(call().data.dtype);
  while (done_ < call().data.count && piece > 0) {
    const auto next = std::upper_bound(offsets_.begin(), offsets_.end(), done_);
    const auto owner = static_cast<std::size_t>(next - offsets_.begin()) - 1;
    const std::byte* from = stage_.data()[owner];
    const std::size_t count = from == own ? *next - done_ : std::min(*next - done_, piece);
    if (from != own) {
      std::memcpy(stage_.own() + bytes(done_), from + bytes(done_), bytes(count));
      piece -= count;
    }
    done_ += count;
  }
  return done_ == call().data.count;
}

bool NodeOperation::copy_root() {
  const std::byte* from = stage_.data()[static_cast<std::size_t>(call().root)];
  if (from == stage_.data()[stage_.local_rank()]) return true;
  const std::size_t count =
      std::min(call().data.count - done_, kPieceBytes / size_of(call().data.dtype));
  if (count > 0) std::memcpy(stage_.own() + bytes(done_), from + bytes(done_), bytes(count));
  done_ += count;
  return done_ == call().data.count;
}

bool NodeOperation::read_texts() {
  for (std::size_t r = 0; r < stage_.local_size(); ++r) {
    texts.emplace_back(reinterpret_cast<const char*>(stage_.data()[r]), stage_.text_bytes(r));
  }
  return true;
}

bool NodeOperation::leave() {
  stage_.set(&NodeSlot::left);
  return true;
}

bool NodeOperation::copy_out() {
  const Collective kind = call().kind;
  const bool scattered =
      kind == Collective::kReduceScatter || kind == Collective::kNodeReduceScatter;
  // Of an exchange nothing: its data is empty.
  stage_.copy_out(scattered ? part_begin(rank()) : 0,
                  scattered ? part_end(rank()) : call().data.count);
  return true;
}

}  // namespace trireme
