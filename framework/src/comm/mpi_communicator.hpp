// SPDX-License-Identifier: Apache-2.0
// Internal to the MPI communicator.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "comm/collective_task.hpp"
#include "comm/layout.hpp"
#include "comm/memory.hpp"
#include "comm/mpi.hpp"
#include "comm/mpi_call.hpp"
#include "comm/node_stage.hpp"
#include "comm/progress.hpp"
#include "comm/scratch.hpp"
#include "trireme/communicator.hpp"

namespace trireme {

// What all communicators of the process share.
//
// Note [Contexts]
// All groups use one MPI communicator. Messages are told apart by their tag: 2 * (context * window
// + sequence % window), and the one after it, where a context belongs to one group and window is
// the largest number of operations in flight in it. So split() needs no MPI_Comm_split, which
// blocks the progress thread and with it every other operation. A group's context is the largest of
// those that its parent's ranks have not used yet: two ranks then never share a context of two
// groups. MPI keeps messages of equal tag in order, and an operation starts only when the one a
// window before it is complete on its rank, so that a tag may be used again.
struct MpiLink {
  MpiLink(MPI_Comm communicator, int num_contexts, std::vector<int> nodes,
          const MpiOptions& mpi_options);

  const MPI_Comm comm;  // of all ranks; freed by MPI_Finalize
  const int max_contexts;
  const std::vector<int> node_of;  // [rank in comm] -> lowest rank of its node
  const MpiOptions options;
  std::atomic<int> next_context = 0;
  std::atomic<std::uint64_t> bytes_sent = 0;
  ScratchPool scratch{allocate_pages};
  std::shared_ptr<NodeMemory> node_memory;  // null: the ranks of a node do not share memory
  Progress progress;                        // last: its thread uses the others
};

class MpiCommunicator : public Communicator {
 public:
  // members: [rank in the group] -> rank in link->comm.
  MpiCommunicator(std::shared_ptr<MpiLink> link, std::shared_ptr<const std::vector<int>> members,
                  int rank, int context, std::chrono::milliseconds timeout);

  // Collective over `parent`, before anything is posted here: a board for the ranks of this group
  // that share memory.
  void share_board(Communicator& parent, const std::vector<int>& group);

  // Collective, before anything else is posted: lets the ranks of each node share memory. Returns
  // why they do not; empty: they do.
  std::string share_node_memory();

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_->size()); }
  std::string_view kind() const override { return "mpi"; }
  Placement placement() const override { return layout_->placement_of(rank_); }

  Request all_reduce(Span data) override;
  Request reduce_scatter(Span data, std::span<const std::size_t> offsets) override;
  Request node_reduce_scatter(Span data, std::span<const std::size_t> offsets,
                              const Wire& wire) override;
  Request all_gather(Span data, std::span<const std::size_t> offsets) override;
  Request broadcast(Span data, int root) override;
  std::vector<std::string> exchange(std::string_view bytes) override;
  void barrier() override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  std::unique_ptr<Communicator> split_by_node() override;
  Buffer allocate(std::size_t size_bytes) override;
  Buffer allocate_shared(std::size_t size_bytes) override;
  std::uint64_t bytes_sent() const override { return link_->bytes_sent; }
  void set_timeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }

 private:
  std::shared_ptr<CollectiveTask> post(Call call);
  std::shared_ptr<CollectiveTask> post_on_node(Call call);
  std::shared_ptr<CollectiveTask> post_between_nodes(Call call);
  int agree_on_context();
  bool have_core_each();
  // The ranks of this group by node; each a node of its own where ranks share no memory.
  Layout find_layout() const;

  const std::shared_ptr<MpiLink> link_;
  const std::shared_ptr<const std::vector<int>> members_;
  const int rank_;
  const int context_;
  std::chrono::milliseconds timeout_;
  std::uint64_t sequence_ = 0;
  std::shared_ptr<const Layout> layout_;
  std::shared_ptr<const NodeSeat> seat_;
  std::vector<std::weak_ptr<CollectiveTask>> in_flight_;  // [sequence % window]
};

}  // namespace trireme
