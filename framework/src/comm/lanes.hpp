// SPDX-License-Identifier: Apache-2.0
// What one rank moves between nodes for one collective. Internal to the MPI communicator; progress
// thread only.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "comm/layout.hpp"
#include "comm/message_stream.hpp"
#include "comm/scratch.hpp"

namespace trireme {

// Note [Lanes]
// The data is cut into cells (layout.hpp), and these into pieces of a few ten kilobytes: small
// enough that both directions of a link stay busy and what arrives is summed while it is in the
// cache.
// To sum, each holder sends its node's partial sum of a piece to the piece's owner, who adds the
// nodes' partial sums in their order as soon as all are there. Every node sends to every other: the
// bytes are as few as can be, each number is rounded as seldom as can be, and it takes one latency.
// At half width the owner rounds its own node's partial sum, too: the same sum whoever owns it.
// To gather, owners send their pieces to the holders, each as soon as it is summed: so in a sum
// that every node wants both directions of a link carry both kinds.
class Lanes {
 public:
  struct Setup {
    std::vector<Cell> cells = {};  // all of the group's
    bool sums = false;             // owners sum, else they have
    bool gathers = false;          // holders are given what owners have
    Wire wire = {};
    std::size_t residual_begin = 0;  // the element of wire.residual[0]
  };

  // Where this rank's data lies, and that of all ranks of its node; all stay valid.
  struct Memory {
    std::byte* own = nullptr;
    std::vector<std::byte*> local;  // [local rank]; not read where only one
  };

  // partials, wholes: routes of the two kinds of messages, told apart by their tags.
  Lanes(Setup setup, const Layout& layout, int rank, DType dtype, Route partials, Route wholes,
        std::size_t piece_bytes, ScratchPool& pool);
  ~Lanes();  // gives its memory back to the pool
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  void start(Memory memory) { memory_ = std::move(memory); }
  // Whether anything moved. done() once nothing is left to do.
  bool advance();
  bool done() const;
  // The ranks that it waits for, each once, ascending.
  std::vector<int> pending_ranks() const;

 private:
  struct Piece {
    std::size_t begin = 0, count = 0;  // elements
    std::size_t cell = 0;
  };
  // The pieces that travel between this rank and one other, in one direction.
  struct Flow {
    Flow(const Route& route, int rank) : stream(route, rank) {}
    bool has_next() const { return stream.started() < pieces.size() && stream.has_room(); }
    // Of receives: a slot is free again once its piece has been used.
    bool has_slot() const { return stream.started() - used < MessageStream::kWindow; }
    const Piece& next() const { return pieces[stream.started()]; }
    bool done() const { return used == pieces.size() && stream.idle(); }

    MessageStream stream;
    std::vector<Piece> pieces;
    std::size_t used = 0;  // received and worked on; of sends: all that are started
    Buffer ring;           // a slot for each message in flight; none where data is in place
  };
  // Of the flow with this rank; flows.size() where there is none.
  static std::size_t index_of(const std::vector<Flow>& flows, int rank);
  void plan(const Layout& layout);
  void take_rings();
  std::byte* slot(const Flow& flow, std::size_t message) const;
  bool is_half() const { return setup_.wire.type != WireType::kSame; }

  bool send_partials();
  bool receive_partials();
  bool sum_pieces();
  bool send_wholes();
  bool receive_wholes();

  void sum_node(const Piece& piece) const;
  void sum_nodes(const Piece& piece);
  void sum_nodes_half(const Piece& piece);
  bool has_all_partials(const Piece& piece) const;
  float* residual_of(const Piece& piece) const;
  std::byte* own(std::size_t element) const { return memory_.own + element * size_of(dtype_); }

  const Setup setup_;
  const int rank_, node_;
  const DType dtype_;
  const Route partials_, wholes_;
  const std::size_t piece_elements_;
  ScratchPool& pool_;
  Memory memory_;
  std::vector<Piece> owned_;
  std::vector<Flow> partials_out_, partials_in_, wholes_out_, wholes_in_;
  std::vector<std::vector<std::size_t>> sources_;  // [cell][node] -> in partials_in_; owned cells
  std::size_t summed_ = 0;                         // pieces of owned_ that are whole
  Buffer owned_half_;                              // those on the wire's type
  std::vector<std::size_t> half_begin_;            // [owned piece] -> element of owned_half_, and
                                                   // of wire.sum_residual
  std::size_t budget_ = 0;                         // elements to sum until the next advance()
};

}  // namespace trireme
