// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi_communicator.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "comm/group.hpp"
#include "comm/mpi_collectives.hpp"
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
                                 int context, std::chrono::milliseconds timeout,
                                 std::shared_ptr<const NodeBoard> board)
    : link_(std::move(link)),
      members_(std::move(members)),
      rank_(rank),
      context_(context),
      timeout_(timeout),
      board_(std::move(board)),
      in_flight_(static_cast<std::size_t>(link_->options.max_in_flight)) {}

Request MpiCommunicator::all_reduce(Span data) {
  return Request(post({.kind = Collective::kAllReduce, .data = data}));
}

Request MpiCommunicator::reduce_scatter(Span data, std::span<const std::size_t> offsets) {
  return Request(post({.kind = Collective::kReduceScatter,
                       .data = data,
                       .offsets = {offsets.begin(), offsets.end()}}));
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
  std::shared_ptr<const NodeBoard> board;
  if (link_->node_memory) board = NodeBoard::make(*this, on_one_node(group) ? group : Group{});
  return std::make_unique<MpiCommunicator>(link_, std::move(members), index_in(group, rank_),
                                           context, timeout_, std::move(board));
}

std::unique_ptr<Communicator> MpiCommunicator::split_by_node() {
  const auto rank_in_comm = static_cast<std::size_t>((*members_)[static_cast<std::size_t>(rank_)]);
  return split(link_->node_of[rank_in_comm], rank_);
}

Buffer MpiCommunicator::allocate(std::size_t size_bytes) {
  return link_->node_memory ? link_->node_memory->arena->allocate(size_bytes)
                            : allocate_pages(size_bytes);
}

// What a rank finds alone becomes everybody's: all share, or none does.
std::string MpiCommunicator::share_node_memory() {
  try {
    collectively(*this, [&] { link_->node_memory = std::make_unique<NodeMemory>(); });
    Group all(members_->size());
    std::iota(all.begin(), all.end(), 0);
    board_ = NodeBoard::make(*this, on_one_node(all) ? all : Group{});
    if (board_) sequence_ = 0;  // a board's operations count from 0
    return {};
  } catch (const SharedError& error) {
    link_->node_memory.reset();
    return error.what();
  }
}

bool MpiCommunicator::on_one_node(const std::vector<int>& group) const {
  const auto node_of = [&](int rank) {
    return link_->node_of[static_cast<std::size_t>((*members_)[static_cast<std::size_t>(rank)])];
  };
  return group.size() > 1 && std::ranges::all_of(group, [&](int rank) {
           return node_of(rank) == node_of(group.front());
         });
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
  ++sequence_;  // of what is posted: a board counts on it
  return board_ ? post_on_node(std::move(call)) : post_messages(std::move(call));
}

std::shared_ptr<CollectiveTask> MpiCommunicator::post_on_node(Call call) {
  auto operation = std::make_shared<NodeOperation>(std::move(call), rank_, board_,
                                                   *link_->node_memory, timeout_);
  // The caller takes the first steps: what others read is published when this returns.
  const bool complete = operation->test();
  const bool later = complete || !operation->needs_thread();
  link_->progress.post(operation, later ? Progress::Wake::kLater : Progress::Wake::kNow);
  return operation;
}

std::shared_ptr<CollectiveTask> MpiCommunicator::post_messages(Call call) {
  const std::uint64_t slot = call.sequence % in_flight_.size();
  if (const auto oldest = in_flight_[slot].lock()) oldest->wait();
  const Route route = {
      .comm = link_->comm,
      .members = members_,
      .tag = context_ * link_->options.max_in_flight + static_cast<int>(slot),
      .max_message_bytes = link_->options.max_message_bytes,
  };
  auto stages = stages_of(call, size(), link_->options.gather_limit_bytes);
  auto operation = std::make_shared<MpiOperation>(std::move(call), rank_, route, std::move(stages),
                                                  link_->scratch, timeout_);
  link_->progress.post(operation);
  in_flight_[slot] = operation;
  return operation;
}

}  // namespace trireme
