// SPDX-License-Identifier: Apache-2.0
#include "comm/lanes.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>

#include "comm/sum.hpp"
#include "comm/wire_format.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

// Work of one advance(), so that operations on the same thread take turns.
constexpr std::size_t kBudgetElements = std::size_t{1} << 18;
// Halves are widened and summed in blocks that stay in the first-level cache.
constexpr std::size_t kBlock = 1024;

template <class Flows>
bool poll_all(Flows& flows) {
  bool moved = false;
  for (auto& flow : flows) moved = flow.stream.poll() || moved;
  return moved;
}

template <class Flows>
bool all_done(const Flows& flows) {
  return std::all_of(flows.begin(), flows.end(), [](const auto& flow) { return flow.done(); });
}

}  // namespace

Lanes::Lanes(Setup setup, const Layout& layout, int rank, DType dtype, Route partials, Route wholes,
             std::size_t piece_bytes, ScratchPool& pool)
    : setup_(std::move(setup)),
      rank_(rank),
      node_(layout.node_of[static_cast<std::size_t>(rank)]),
      dtype_(dtype),
      partials_(std::move(partials)),
      wholes_(std::move(wholes)),
      piece_elements_(piece_bytes / wire_size(setup_.wire.type, dtype)),
      pool_(pool) {
  plan(layout);
  take_rings();
}

Lanes::~Lanes() {
  for (auto* flows : {&partials_out_, &partials_in_, &wholes_out_, &wholes_in_}) {
    for (Flow& flow : *flows) {
      if (flow.ring.size_bytes() > 0) pool_.give_back(std::move(flow.ring));
    }
  }
  if (owned_half_.size_bytes() > 0) pool_.give_back(std::move(owned_half_));
}

std::size_t Lanes::index_of(const std::vector<Flow>& flows, int rank) {
  const auto found = std::find_if(flows.begin(), flows.end(),
                                  [&](const Flow& flow) { return flow.stream.rank() == rank; });
  return static_cast<std::size_t>(found - flows.begin());
}

void Lanes::plan(const Layout& layout) {
  std::size_t owned_elements = 0;
  sources_.resize(setup_.cells.size());
  for (std::size_t c = 0; c < setup_.cells.size(); ++c) {
    const Cell& cell = setup_.cells[c];
    const bool owns = cell.owner == rank_;
    const bool holds = !owns && cell.holders[static_cast<std::size_t>(node_)] == rank_;
    if (!owns && !holds) continue;
    std::vector<Piece> pieces;
    for (std::size_t at = cell.begin; at < cell.end; at += piece_elements_) {
      pieces.push_back({.begin = at, .count = std::min(piece_elements_, cell.end - at), .cell = c});
    }
    const auto add = [&](std::vector<Flow>& flows, const Route& route, int rank) {
      const std::size_t index = index_of(flows, rank);
      if (index == flows.size()) flows.emplace_back(route, rank);
      auto& of_flow = flows[index].pieces;
      of_flow.insert(of_flow.end(), pieces.begin(), pieces.end());
    };
    if (holds) {
      if (setup_.sums) add(partials_out_, partials_, cell.owner);
      if (setup_.gathers) add(wholes_in_, wholes_, cell.owner);
      continue;
    }
    for (const Piece& piece : pieces) {
      owned_.push_back(piece);
      half_begin_.push_back(owned_elements);
      owned_elements += piece.count;
    }
    for (std::size_t node = 0; node < layout.nodes.size(); ++node) {
      const int holder = cell.holders[node];
      if (holder == rank_) continue;
      if (setup_.sums) add(partials_in_, partials_, holder);
      if (setup_.gathers) add(wholes_out_, wholes_, holder);
    }
  }
  for (const Piece& piece : owned_) {
    auto& sources = sources_[piece.cell];
    if (!setup_.sums || !sources.empty()) continue;
    for (const int holder : setup_.cells[piece.cell].holders)
      sources.push_back(index_of(partials_in_, holder));
  }
  if (is_half() && owned_elements > 0) owned_half_ = pool_.take(owned_elements * 2);
  if (!setup_.sums) summed_ = owned_.size();
  // Beginning after the own rank, so that not all ranks send to rank 0 first.
  const auto distance = [&](const Flow& flow) {
    const int ranks = static_cast<int>(layout.node_of.size());
    return (flow.stream.rank() - rank_ + ranks) % ranks;
  };
  for (auto* flows : {&partials_out_, &wholes_out_}) {
    std::sort(flows->begin(), flows->end(),
              [&](const Flow& a, const Flow& b) { return distance(a) < distance(b); });
  }
}

void Lanes::take_rings() {
  const auto take = [&](std::vector<Flow>& flows) {
    const std::size_t slot_bytes = piece_elements_ * wire_size(setup_.wire.type, dtype_);
    for (Flow& flow : flows) flow.ring = pool_.take(slot_bytes * MessageStream::kWindow);
  };
  take(partials_in_);
  if (!is_half()) return;
  take(partials_out_);
  take(wholes_in_);
}

std::byte* Lanes::slot(const Flow& flow, std::size_t message) const {
  return flow.ring.data() +
         message % MessageStream::kWindow * piece_elements_ * wire_size(setup_.wire.type, dtype_);
}

float* Lanes::residual_of(const Piece& piece) const {
  return setup_.wire.residual == nullptr
             ? nullptr
             : setup_.wire.residual + (piece.begin - setup_.residual_begin);
}

bool Lanes::advance() {
  budget_ = kBudgetElements;
  bool moved = false;
  for (auto* flows : {&partials_out_, &partials_in_, &wholes_out_, &wholes_in_}) {
    moved = poll_all(*flows) || moved;
  }
  moved = receive_partials() || moved;
  moved = send_partials() || moved;
  moved = sum_pieces() || moved;
  moved = send_wholes() || moved;
  return receive_wholes() || moved;
}

bool Lanes::done() const {
  return summed_ == owned_.size() && all_done(partials_out_) && all_done(partials_in_) &&
         all_done(wholes_out_) && all_done(wholes_in_);
}

// Partial sums come from ranks that wait for nobody; whole ones and sends may wait for a third.
std::vector<int> Lanes::pending_ranks() const {
  for (const auto* flows : {&partials_in_, &wholes_in_, &partials_out_, &wholes_out_}) {
    std::set<int> ranks;
    for (const Flow& flow : *flows) {
      if (flow.stream.completed() < flow.pieces.size()) ranks.insert(flow.stream.rank());
    }
    if (!ranks.empty()) return {ranks.begin(), ranks.end()};
  }
  return {};
}

bool Lanes::send_partials() {
  bool moved = false;
  for (Flow& flow : partials_out_) {
    while (flow.has_next() && budget_ > 0) {
      const Piece& piece = flow.next();
      const std::byte* from = own(piece.begin);
      sum_node(piece);
      budget_ -= std::min(budget_, piece.count);
      if (is_half()) {
        std::byte* half = slot(flow, flow.stream.started());
        encode(setup_.wire.type, reinterpret_cast<const float*>(own(piece.begin)),
               residual_of(piece), piece.count, reinterpret_cast<std::uint16_t*>(half),
               setup_.wire.counts);
        from = half;
      }
      flow.stream.send(from, piece.count * wire_size(setup_.wire.type, dtype_));
      ++flow.used;
      moved = true;
    }
  }
  return moved;
}

bool Lanes::receive_partials() {
  bool moved = false;
  for (Flow& flow : partials_in_) {
    // A slot is free again once its piece is summed.
    while (flow.has_next() && flow.has_slot()) {
      flow.stream.receive(slot(flow, flow.stream.started()),
                          flow.next().count * wire_size(setup_.wire.type, dtype_));
      moved = true;
    }
  }
  return moved;
}

// The sum of this node's ranks; at once where the data is.
void Lanes::sum_node(const Piece& piece) const {
  if (memory_.local.size() == 1) return;
  std::vector<const std::byte*> parts;
  for (const std::byte* data : memory_.local) parts.push_back(data + piece.begin * size_of(dtype_));
  sum_in_order(dtype_, parts, own(piece.begin), piece.count);
}

bool Lanes::has_all_partials(const Piece& piece) const {
  const auto& sources = sources_[piece.cell];
  return std::all_of(sources.begin(), sources.end(), [&](std::size_t source) {
    return source == partials_in_.size() ||
           partials_in_[source].stream.completed() > partials_in_[source].used;
  });
}

bool Lanes::sum_pieces() {
  bool moved = false;
  while (setup_.sums && summed_ < owned_.size() && budget_ > 0 &&
         has_all_partials(owned_[summed_])) {
    const Piece& piece = owned_[summed_];
    sum_node(piece);
    if (is_half()) {
      sum_nodes_half(piece);
    } else {
      sum_nodes(piece);
    }
    for (const std::size_t source : sources_[piece.cell]) {
      if (source < partials_in_.size()) ++partials_in_[source].used;
    }
    budget_ -= std::min(budget_, piece.count);
    ++summed_;
    moved = true;
  }
  return moved;
}

void Lanes::sum_nodes(const Piece& piece) {
  std::vector<const std::byte*> parts;  // [node]
  for (const std::size_t source : sources_[piece.cell]) {
    parts.push_back(source == partials_in_.size()
                        ? own(piece.begin)
                        : slot(partials_in_[source], partials_in_[source].used));
  }
  sum_in_order(dtype_, parts, own(piece.begin), piece.count);
}

// This node's partial sum is rounded as those that travel, so that no number depends on who owns
// it.
void Lanes::sum_nodes_half(const Piece& piece) {
  const WireType type = setup_.wire.type;
  auto* whole = reinterpret_cast<float*>(own(piece.begin));
  auto* half = reinterpret_cast<std::uint16_t*>(owned_half_.data()) + half_begin_[summed_];
  encode(type, whole, residual_of(piece), piece.count, half, setup_.wire.counts);
  std::vector<const std::uint16_t*> parts;  // [node]
  for (const std::size_t source : sources_[piece.cell]) {
    parts.push_back(source == partials_in_.size()
                        ? half
                        : reinterpret_cast<const std::uint16_t*>(
                              slot(partials_in_[source], partials_in_[source].used)));
  }
  std::array<float, kBlock> part;
  for (std::size_t at = 0; at < piece.count; at += kBlock) {
    const std::size_t length = std::min(kBlock, piece.count - at);
    decode(type, parts.front() + at, length, whole + at);
    for (std::size_t node = 1; node < parts.size(); ++node) {
      decode(type, parts[node] + at, length, part.data());
      for (std::size_t i = 0; i < length; ++i) whole[at + i] += part[i];
    }
  }
  float* residual = setup_.wire.sum_residual;
  encode(type, whole, residual == nullptr ? nullptr : residual + half_begin_[summed_], piece.count,
         half, setup_.wire.counts);
  decode(type, half, piece.count, whole);
}

bool Lanes::send_wholes() {
  bool moved = false;
  for (Flow& flow : wholes_out_) {
    // All owned pieces go to the holders of their cells, in order: those before the first that is
    // not summed yet may go.
    while (flow.has_next() &&
           (summed_ == owned_.size() || flow.next().begin < owned_[summed_].begin)) {
      const Piece& piece = flow.next();
      const std::byte* from = own(piece.begin);
      if (is_half()) {
        const auto found = std::lower_bound(
            owned_.begin(), owned_.end(), piece.begin,
            [](const Piece& owned, std::size_t begin) { return owned.begin < begin; });
        from =
            owned_half_.data() + 2 * half_begin_[static_cast<std::size_t>(found - owned_.begin())];
      }
      flow.stream.send(from, piece.count * wire_size(setup_.wire.type, dtype_));
      ++flow.used;
      moved = true;
    }
  }
  return moved;
}

bool Lanes::receive_wholes() {
  bool moved = false;
  for (Flow& flow : wholes_in_) {
    while (is_half() && flow.used < flow.stream.completed()) {
      const Piece& piece = flow.pieces[flow.used];
      decode(setup_.wire.type, reinterpret_cast<const std::uint16_t*>(slot(flow, flow.used)),
             piece.count, reinterpret_cast<float*>(own(piece.begin)));
      ++flow.used;
      moved = true;
    }
    if (!is_half()) flow.used = flow.stream.completed();
    // A whole piece lands where this rank's partial sum of it lay: that must have left.
    const std::size_t out = index_of(partials_out_, flow.stream.rank());
    const auto has_left = [&](std::size_t message) {
      return out == partials_out_.size() || message < partials_out_[out].stream.completed();
    };
    while (flow.has_next() && flow.has_slot() && has_left(flow.stream.started())) {
      const Piece& piece = flow.next();
      std::byte* to = is_half() ? slot(flow, flow.stream.started()) : own(piece.begin);
      flow.stream.receive(to, piece.count * wire_size(setup_.wire.type, dtype_));
      moved = true;
    }
  }
  return moved;
}

}  // namespace trireme
