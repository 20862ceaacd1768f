// SPDX-License-Identifier: Apache-2.0
#include "comm/multi_node_operation.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "comm/shared_error.hpp"
#include "comm/sum.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

// Copied in one step, so that operations on the same thread take turns.
constexpr std::size_t kCopyBytes = std::size_t{1} << 20;
Route with_tag_after(Route route) {
  ++route.tag;
  return route;
}

bool takes_shortest_way(const Call& call, const MessageSizes& options) {
  return call.kind == Collective::kAllReduce && call.data.size_bytes() <= options.gather_bytes &&
         call.data.size_bytes() <= NodeSlot::kInlineBytes;
}

std::string as_bytes(std::uint64_t number) {
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}

// The text that follows its length, taken off the front of `packed`.
std::string_view take_text(std::string_view& packed) {
  std::uint64_t length = 0;
  std::memcpy(&length, packed.data(), sizeof(length));
  const std::string_view text = packed.substr(sizeof(length), length);
  packed.remove_prefix(sizeof(length) + length);
  return text;
}

}  // namespace

MultiNodeOperation::MultiNodeOperation(Call call, int rank, std::shared_ptr<const Layout> layout,
                                       std::shared_ptr<const NodeSeat> seat, Route route,
                                       MessageSizes options, ScratchPool& pool,
                                       std::chrono::milliseconds timeout)
    : CollectiveTask(std::move(call), rank, static_cast<int>(layout->node_of.size()), timeout),
      layout_(std::move(layout)),
      node_(layout_->node_of[static_cast<std::size_t>(rank)]),
      route_(std::move(route)),
      second_route_(with_tag_after(route_)),
      options_(options),
      pool_(pool),
      is_small_(takes_shortest_way(this->call(), options_)),
      stage_(this->call(), std::move(seat),
             is_small_ || this->call().kind == Collective::kExchange),
      steps_(steps_of(this->call().kind, is_small_)),
      messages_(route_) {}

std::span<const MultiNodeOperation::Step> MultiNodeOperation::steps_of(Collective kind,
                                                                       bool is_small) {
  using Op = MultiNodeOperation;
  static constexpr std::array<Step, 7> kSmallAllReduce{
      &Op::publish,     &Op::arrive,     &Op::gather_small, &Op::mark_reduced,
      &Op::all_reduced, &Op::take_small, &Op::leave};
  static constexpr std::array<Step, 9> kGather{&Op::publish,      &Op::arrive,      &Op::move_lanes,
                                               &Op::mark_reduced, &Op::all_reduced, &Op::copy_cells,
                                               &Op::leave,        &Op::all_left,    &Op::copy_out};
  static constexpr std::array<Step, 7> kReduceScatter{
      &Op::publish,     &Op::arrive, &Op::move_lanes, &Op::mark_reduced,
      &Op::all_reduced, &Op::leave,  &Op::copy_out};
  static constexpr std::array<Step, 9> kBroadcast{
      &Op::publish,   &Op::arrive, &Op::relay_root, &Op::mark_reduced, &Op::all_reduced,
      &Op::copy_root, &Op::leave,  &Op::all_left,   &Op::copy_out};
  static constexpr std::array<Step, 9> kExchange{
      &Op::publish,    &Op::arrive, &Op::send_texts, &Op::mark_reduced, &Op::all_reduced,
      &Op::read_texts, &Op::leave,  &Op::all_left,   &Op::copy_out};
  static constexpr std::array<Step, 6> kBarrier{&Op::publish,      &Op::arrive,
                                                &Op::signal_nodes, &Op::mark_reduced,
                                                &Op::all_reduced,  &Op::leave};
  switch (kind) {
    case Collective::kAllReduce:
      return is_small ? std::span<const Step>(kSmallAllReduce) : kGather;
    case Collective::kReduceScatter:
    case Collective::kNodeReduceScatter:
      return kReduceScatter;
    case Collective::kAllGather:
      return kGather;
    case Collective::kBroadcast:
      return kBroadcast;
    case Collective::kExchange:
      return kExchange;
    case Collective::kBarrier:
      return kBarrier;
  }
  TRIREME_ASSERT(false, "not a collective");
}

Task::Advance MultiNodeOperation::advance() {
  moved_ = false;
  while (next_step_ < steps_.size()) {
    if (!(this->*steps_[next_step_])()) return moved_ ? Advance::kMoved : Advance::kWaiting;
    ++next_step_;
    done_ = 0;
    moved_ = true;
  }
  return Advance::kComplete;
}

std::string MultiNodeOperation::waits_for() const {
  std::vector<int> ranks = lanes_ ? lanes_->pending_ranks() : messages_.pending_ranks();
  if (from_parent_ && !from_parent_->idle()) ranks.push_back(from_parent_->rank());
  for (const MessageStream& stream : to_children_) {
    if (!stream.idle()) ranks.push_back(stream.rank());
  }
  return ranks.empty() ? stage_.waits_for() : "rank " + rank_list(ranks);
}

// Of sums and gathers.

void MultiNodeOperation::open_lanes() {
  const Collective kind = call().kind;
  const DType dtype = call().data.dtype;
  if (kind == Collective::kReduceScatter || kind == Collective::kAllGather) {
    cells_ = cells_of_ranks(call().offsets, *layout_);
  } else if (kind == Collective::kNodeReduceScatter) {
    cells_ = cells_of_shards(call().offsets, *layout_, dtype);
  } else {
    const auto offsets = even_offsets(call().data.count, layout_->max_local_size());
    cells_ = cells_of_shards(offsets, *layout_, dtype);
  }
  lanes_.emplace(Lanes::Setup{.cells = cells_,
                              .sums = kind != Collective::kAllGather,
                              .gathers = kind != Collective::kReduceScatter,
                              .wire = call().wire,
                              .residual_begin = own_part().begin},
                 *layout_, rank(), dtype, route_, second_route_, options_.piece_bytes, pool_);
  lanes_->start({.own = stage_.own(), .local = stage_.data()});
}

bool MultiNodeOperation::move_lanes() {
  if (!lanes_) open_lanes();
  moved_ = lanes_->advance() || moved_;
  if (!lanes_->done()) return false;
  lanes_.reset();
  return true;
}

// What this rank is given in a sum that is not gathered.
Part MultiNodeOperation::own_part() const {
  const auto r = static_cast<std::size_t>(rank());
  switch (call().kind) {
    case Collective::kReduceScatter:
      return {.begin = call().offsets[r], .end = call().offsets[r + 1]};
    case Collective::kNodeReduceScatter:
      return part_of(call().offsets, static_cast<int>(stage_.local_rank()),
                     static_cast<int>(stage_.local_size()));
    default:
      return {.begin = 0, .end = call().data.count};
  }
}

// What others of the node hold. done_ runs over all elements.
bool MultiNodeOperation::copy_cells() {
  const auto& data = stage_.data();
  std::size_t budget = kCopyBytes / size_of(call().data.dtype);
  for (const Cell& cell : cells_) {
    const int holder = cell.holders[static_cast<std::size_t>(node_)];
    const auto local = layout_->local_rank_of[static_cast<std::size_t>(holder)];
    const std::byte* from = data[static_cast<std::size_t>(local)];
    if (cell.end <= done_ || from == data[stage_.local_rank()]) continue;
    const std::size_t begin = std::max(cell.begin, done_);
    const std::size_t count = std::min(cell.end - begin, budget);
    std::memcpy(stage_.own() + bytes(begin), from + bytes(begin), bytes(count));
    done_ = begin + count;
    budget -= count;
    if (done_ < cell.end) {
      moved_ = true;
      return false;
    }
  }
  return true;
}

// Of broadcast.

int MultiNodeOperation::root_of_node(int node) const {
  const auto root = static_cast<std::size_t>(call().root);
  return node == layout_->node_of[root] ? call().root : first_of_node(node);
}

// Nodes counted from the root's form a binomial tree: the parent lacks the lowest bit that is set.
void MultiNodeOperation::open_relay() {
  const int root_node = layout_->node_of[static_cast<std::size_t>(call().root)];
  const int me = (node_ - root_node + num_nodes()) % num_nodes();
  const auto node_at = [&](int place) { return (place + root_node) % num_nodes(); };
  if (me != 0) from_parent_.emplace(route_, root_of_node(node_at(me & (me - 1))));
  int bit = 1;
  while (bit < num_nodes() && (me & bit) == 0) bit <<= 1;
  for (bit >>= 1; bit > 0; bit >>= 1) {  // the largest subtree first
    if (me + bit < num_nodes()) to_children_.emplace_back(route_, root_of_node(node_at(me + bit)));
  }
}

bool MultiNodeOperation::relay_root() {
  if (rank() != root_of_node(node_)) return true;
  if (!from_parent_ && to_children_.empty()) open_relay();
  const std::size_t size_bytes = call().data.size_bytes(), piece = options_.piece_bytes;
  const std::size_t pieces = (size_bytes + piece - 1) / piece;
  const auto begin = [&](std::size_t i) { return stage_.own() + i * piece; };
  const auto length = [&](std::size_t i) { return std::min(piece, size_bytes - i * piece); };
  if (from_parent_) {
    moved_ = from_parent_->poll() || moved_;
    while (from_parent_->started() < pieces && from_parent_->has_room()) {
      from_parent_->receive(begin(from_parent_->started()), length(from_parent_->started()));
    }
  }
  const std::size_t here = from_parent_ ? from_parent_->completed() : pieces;
  bool done = here == pieces;
  for (MessageStream& child : to_children_) {
    moved_ = child.poll() || moved_;
    while (child.started() < here && child.has_room()) {
      child.send(begin(child.started()), length(child.started()));
    }
    done = done && child.completed() == pieces;
  }
  return done;
}

bool MultiNodeOperation::copy_root() {
  const int holder = root_of_node(node_);
  const auto local = layout_->local_rank_of[static_cast<std::size_t>(holder)];
  const std::byte* from = stage_.data()[static_cast<std::size_t>(local)];
  if (from == stage_.data()[stage_.local_rank()]) return true;
  const std::size_t size_bytes = call().data.size_bytes();
  const std::size_t count = std::min(size_bytes - done_, kCopyBytes);
  if (count > 0) std::memcpy(stage_.own() + done_, from + done_, count);
  done_ += count;
  moved_ = true;
  return done_ == size_bytes;
}

// Of small sums and barriers.

bool MultiNodeOperation::messages_arrived() {
  const Messages::Progress progress = messages_.poll();
  moved_ = moved_ || progress == Messages::Progress::kSome;
  return progress == Messages::Progress::kAll;
}

void MultiNodeOperation::sum_node_to(std::byte* out) const {
  const std::vector<const std::byte*> parts(stage_.data().begin(), stage_.data().end());
  sum_in_order(call().data.dtype, parts, out, call().data.count);
}

bool MultiNodeOperation::gather_small() {
  if (!is_first_of_node() || call().data.count == 0) return true;
  const std::size_t block = call().data.size_bytes();
  if (distance_ == 0) {
    blocks_ = pool_.take(block * static_cast<std::size_t>(num_nodes()));
    sum_node_to(blocks_.data());
    distance_ = 1;
    done_ = 0;  // no round is under way
  }
  while (distance_ < num_nodes()) {
    if (done_ == 0) {
      const auto count = static_cast<std::size_t>(std::min(distance_, num_nodes() - distance_));
      const int from = first_of_node(node_after(distance_));
      const int to = first_of_node(node_after(num_nodes() - distance_));
      messages_.receive(from, blocks_.data() + block * static_cast<std::size_t>(distance_),
                        block * count);
      messages_.send(to, blocks_.data(), block * count);
      done_ = 1;
    }
    if (!messages_arrived()) return false;
    done_ = 0;
    distance_ *= 2;
  }
  std::vector<const std::byte*> parts;  // [node]
  for (int node = 0; node < num_nodes(); ++node) {
    const int steps = (node - node_ + num_nodes()) % num_nodes();
    parts.push_back(blocks_.data() + block * static_cast<std::size_t>(steps));
  }
  // The slot's own data has been summed, and the others of the node read the sum there.
  sum_in_order(call().data.dtype, parts, stage_.data().front(), call().data.count);
  pool_.give_back(std::move(blocks_));
  return true;
}

bool MultiNodeOperation::take_small() {
  const std::byte* from = stage_.data().front();
  if (call().data.count > 0 && from != element(0))
    std::memcpy(element(0), from, call().data.size_bytes());
  return true;
}

bool MultiNodeOperation::signal_nodes() {
  if (!is_first_of_node()) return true;
  if (distance_ == 0) distance_ = 1;
  while (distance_ < num_nodes()) {
    if (done_ == 0) {
      messages_.signal(first_of_node(node_after(distance_)),
                       first_of_node(node_after(num_nodes() - distance_)));
      done_ = 1;
    }
    if (!messages_arrived()) return false;
    done_ = 0;
    distance_ *= 2;
  }
  return true;
}

// Of exchange. A node's texts travel as one: each after its length, in the order of local ranks.

std::string MultiNodeOperation::pack_texts() const {
  std::string packed;
  for (std::size_t r = 0; r < stage_.local_size(); ++r) {
    packed += as_bytes(stage_.text_bytes(r));
    packed.append(reinterpret_cast<const char*>(stage_.data()[r]), stage_.text_bytes(r));
  }
  return packed;
}

bool MultiNodeOperation::send_texts() {
  if (!is_first_of_node()) return true;
  const auto nodes = static_cast<std::size_t>(num_nodes()), me = static_cast<std::size_t>(node_);
  const auto for_each_other = [&](const auto& body) {
    for (int i = 1; i < num_nodes(); ++i) body(node_after(i));
  };
  if (done_ == 0) {
    packed_texts_.resize(nodes);
    packed_texts_[me] = pack_texts();
    text_bytes_.assign(nodes, packed_texts_[me].size());
    const auto bytes_of = [&](std::size_t node) {
      return reinterpret_cast<std::byte*>(&text_bytes_[node]);
    };
    for_each_other([&](int node) {
      messages_.receive(first_of_node(node), bytes_of(std::size_t(node)), sizeof(std::uint64_t));
      messages_.send(first_of_node(node), bytes_of(me), sizeof(std::uint64_t));
    });
    done_ = 1;
  }
  if (!messages_arrived()) return false;
  if (done_ == 1) {
    const std::string& own = packed_texts_[me];
    for_each_other([&](int node) {
      std::string& text = packed_texts_[static_cast<std::size_t>(node)];
      text.resize(text_bytes_[static_cast<std::size_t>(node)]);
      messages_.receive(first_of_node(node), reinterpret_cast<std::byte*>(text.data()),
                        text.size());
      messages_.send(first_of_node(node), reinterpret_cast<const std::byte*>(own.data()),
                     own.size());
    });
    done_ = 2;
    if (!messages_arrived()) return false;
  }
  for (const std::string& packed : packed_texts_) all_texts_ += packed;
  if (stage_.local_size() > 1)
    std::memcpy(stage_.make_result(all_texts_.size()), all_texts_.data(), all_texts_.size());
  return true;
}

void MultiNodeOperation::unpack_texts(std::string_view packed) {
  texts.resize(static_cast<std::size_t>(size()));
  for (const auto& ranks : layout_->nodes) {
    for (const int rank : ranks) texts[static_cast<std::size_t>(rank)] = take_text(packed);
  }
}

bool MultiNodeOperation::read_texts() {
  unpack_texts(stage_.local_size() > 1 ? stage_.result_of(0) : all_texts_);
  return true;
}

// Of all.

bool MultiNodeOperation::mark_reduced() {
  stage_.set(&NodeSlot::reduced);
  return true;
}

bool MultiNodeOperation::leave() {
  stage_.set(&NodeSlot::left);
  return true;
}

bool MultiNodeOperation::copy_out() {
  const Part part = own_part();
  stage_.copy_out(part.begin, part.end);
  return true;
}

}  // namespace trireme
