// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi_communicator.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "base/cores.hpp"
#include "comm/group.hpp"
#include "comm/multi_node_operation.hpp"
#include "comm/node_operation.hpp"
#include "comm/shared_error.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

using Group = std::vector<int>;  // ranks

// Lets MPI move what it has queued, whatever that is.
void poke(MPI_Comm comm) {
  int flag = 0;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE), "MPI_Iprobe");
}

}  // namespace

MpiLink::MpiLink(MPI_Comm communicator, int num_contexts, std::vector<int> nodes,
                 const MpiOptions& mpi_options)
    : comm(communicator),
      max_contexts(num_contexts),
      node_of(std::move(nodes)),
      options(mpi_options),
      progress([communicator] { poke(communicator); }) {}

MpiCommunicator::MpiCommunicator(std::shared_ptr<MpiLink> link,
                                 std::shared_ptr<const std::vector<int>> members, int rank,
                                 int context, std::chrono::milliseconds timeout)
    : link_(std::move(link)),
      members_(std::move(members)),
      rank_(rank),
      context_(context),
      timeout_(timeout),
      layout_(std::make_shared<Layout>(find_layout())),
      in_flight_(static_cast<std::size_t>(link_->options.max_in_flight)) {
  seat_ =
      std::make_shared<NodeSeat>(NodeSeat{.board = nullptr, .memory = nullptr, .ranks = {rank_}});
}

Request MpiCommunicator::all_reduce(Span data) {
  return Request(post({.kind = Collective::kAllReduce, .data = data}));
}

Request MpiCommunicator::reduce_scatter(Span data, std::span<const std::size_t> offsets) {
  return Request(post({.kind = Collective::kReduceScatter,
                       .data = data,
                       .offsets = {offsets.begin(), offsets.end()}}));
}

Request MpiCommunicator::node_reduce_scatter(Span data, std::span<const std::size_t> offsets,
                                             const Wire& wire) {
  return Request(post({.kind = Collective::kNodeReduceScatter,
                       .data = data,
                       .offsets = {offsets.begin(), offsets.end()},
                       .wire = wire}));
}

Request MpiCommunicator::all_gather(Span data, std::span<const std::size_t> offsets) {
  return Request(post(
      {.kind = Collective::kAllGather, .data = data, .offsets = {offsets.begin(), offsets.end()}}));
}

Request MpiCommunicator::broadcast(Span data, int root) {
  return Request(post({.kind = Collective::kBroadcast, .data = data, .root = root}));
}

std::vector<std::string> MpiCommunicator::exchange(std::string_view bytes) {
  const auto operation = post({.kind = Collective::kExchange, .bytes = std::string(bytes)});
  operation->wait();
  return std::move(operation->texts);
}

void MpiCommunicator::barrier() { post({.kind = Collective::kBarrier})->wait(); }

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key) {
  const std::vector<int> group = agree_on_group(*this, color, key);
  const int context = agree_on_context();
  auto members = std::make_shared<std::vector<int>>();
  for (const int rank : group) members->push_back((*members_)[static_cast<std::size_t>(rank)]);
  auto communicator = std::make_unique<MpiCommunicator>(link_, std::move(members),
                                                        index_in(group, rank_), context, timeout_);
  if (link_->node_memory) communicator->share_board(*this, group);
  return communicator;
}

std::unique_ptr<Communicator> MpiCommunicator::split_by_node() {
  const auto rank_in_comm = static_cast<std::size_t>((*members_)[static_cast<std::size_t>(rank_)]);
  return split(link_->node_of[rank_in_comm], rank_);
}

Buffer MpiCommunicator::allocate(std::size_t size_bytes) {
  return link_->node_memory ? link_->node_memory->arena->allocate(size_bytes)
                            : allocate_pages(size_bytes);
}

Buffer MpiCommunicator::allocate_shared(std::size_t size_bytes) {
  std::string place;
  Buffer buffer;
  collectively(*this, [&] {
    if (!seat_->board) {
      buffer = allocate(size_bytes);
    } else if (seat_->local_rank == 0) {
      buffer = link_->node_memory->arena->allocate_shared(size_bytes, seat_->size(), place);
    }
  });
  const std::vector<std::string> places = exchange(place);
  collectively(*this, [&] {
    if (!seat_->board || seat_->local_rank == 0) return;
    const auto first = static_cast<std::size_t>(seat_->ranks.front());
    buffer = link_->node_memory->arena->map_shared(size_bytes, places[first]);
  });
  return buffer;
}

// What a rank finds alone becomes everybody's: all share, or none does.
std::string MpiCommunicator::share_node_memory() {
  try {
    std::shared_ptr<NodeMemory> memory;
    collectively(*this, [&] { memory = std::make_shared<NodeMemory>(); });
    Group all(members_->size());
    std::iota(all.begin(), all.end(), 0);
    memory->has_core_each = have_core_each();
    link_->node_memory = memory;
    share_board(*this, all);
    return {};
  } catch (const SharedError& error) {
    link_->node_memory.reset();
    return error.what();
  }
}

// Collective. Whether the ranks of this rank's node may run on as many cores.
bool MpiCommunicator::have_core_each() {
  const std::vector<std::string> lists = exchange(core_list());  // [rank]
  const int node = link_->node_of[static_cast<std::size_t>((*members_)[std::size_t(rank_)])];
  std::vector<std::string> of_node;
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    if (link_->node_of[static_cast<std::size_t>((*members_)[rank])] == node)
      of_node.push_back(lists[rank]);
  }
  return count_cores(of_node) >= static_cast<int>(of_node.size());
}

void MpiCommunicator::share_board(Communicator& parent, const std::vector<int>& group) {
  auto layout = std::make_shared<Layout>(find_layout());
  const auto rank = static_cast<std::size_t>(rank_);
  NodeSeat seat;
  seat.ranks = layout->nodes[static_cast<std::size_t>(layout->node_of[rank])];
  seat.local_rank = layout->local_rank_of[rank];
  seat.memory = link_->node_memory;
  Group neighbours;  // in parent
  for (const int neighbour : seat.ranks)
    neighbours.push_back(group[static_cast<std::size_t>(neighbour)]);
  if (neighbours.size() < 2) neighbours.clear();
  seat.board = NodeBoard::make(parent, neighbours);
  layout_ = std::move(layout);
  seat_ = std::make_shared<NodeSeat>(std::move(seat));
  sequence_ = 0;  // a board's operations count from 0
}

Layout MpiCommunicator::find_layout() const {
  std::vector<int> node_ids;
  for (const int member : *members_) {
    node_ids.push_back(link_->node_memory ? link_->node_of[static_cast<std::size_t>(member)]
                                          : member);
  }
  return make_layout(node_ids);
}

// See Note [Contexts].
int MpiCommunicator::agree_on_context() {
  int context = 0;
  for (const std::string& text : exchange(std::to_string(link_->next_context.load()))) {
    context = std::max(context, std::stoi(text));
  }
  if (context >= link_->max_contexts) {
    throw CommError("no more than " + std::to_string(link_->max_contexts) +
                    " groups can be split off with this MPI library and max_in_flight");
  }
  link_->next_context = context + 1;
  return context;
}

std::shared_ptr<CollectiveTask> MpiCommunicator::post(Call call) {
  call.sequence = sequence_;
  check_arguments(call, size());
  ++sequence_;  // of what is posted: boards and tags count on it
  return layout_->num_nodes() == 1 ? post_on_node(std::move(call))
                                   : post_between_nodes(std::move(call));
}

std::shared_ptr<CollectiveTask> MpiCommunicator::post_on_node(Call call) {
  auto operation = std::make_shared<NodeOperation>(std::move(call), seat_, timeout_);
  // The caller takes the first steps: what others read is published when this returns.
  if (operation->test()) {
    link_->progress.require_running();
    return operation;
  }
  link_->progress.post(operation,
                       operation->is_urgent() ? Progress::Wake::kNow : Progress::Wake::kLater);
  return operation;
}

std::shared_ptr<CollectiveTask> MpiCommunicator::post_between_nodes(Call call) {
  const MpiOptions& options = link_->options;
  const std::uint64_t slot = call.sequence % in_flight_.size();
  if (const auto oldest = in_flight_[slot].lock()) oldest->wait();
  const Route route = {
      .comm = link_->comm,
      .members = members_,
      .tag = 2 * (context_ * options.max_in_flight + static_cast<int>(slot)),
      .max_message_bytes = options.max_message_bytes,
      .bytes_sent = &link_->bytes_sent,
  };
  auto operation = std::make_shared<MultiNodeOperation>(
      std::move(call), rank_, layout_, seat_, route,
      MessageSizes{.piece_bytes = std::min(options.piece_bytes, options.max_message_bytes),
                   .gather_bytes = options.gather_limit_bytes},
      link_->scratch, timeout_);
  link_->progress.post(operation);
  in_flight_[slot] = operation;
  return operation;
}

}  // namespace trireme
