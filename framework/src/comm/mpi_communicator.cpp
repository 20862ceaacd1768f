// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi_communicator.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "comm/group.hpp"
#include "comm/memory.hpp"
#include "comm/mpi_collectives.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

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
  return std::make_unique<MpiCommunicator>(link_, std::move(members), index_in(group, rank_),
                                           context, timeout_);
}

std::unique_ptr<Communicator> MpiCommunicator::split_by_node() {
  const auto rank_in_comm = static_cast<std::size_t>((*members_)[static_cast<std::size_t>(rank_)]);
  return split(link_->node_of[rank_in_comm], rank_);
}

Buffer MpiCommunicator::allocate(std::size_t size_bytes) { return allocate_pages(size_bytes); }

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

std::shared_ptr<MpiOperation> MpiCommunicator::post(Call call) {
  call.sequence = sequence_++;
  check_arguments(call, size());
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
