// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi_operation.hpp"

#include <utility>

#include "comm/shared_error.hpp"

namespace trireme {

MpiOperation::MpiOperation(Call call, int rank, Route route, std::vector<Stage> stages,
                           ScratchPool& scratch, std::chrono::milliseconds timeout)
    : Task(timeout),
      call_(std::move(call)),
      rank_(rank),
      size_(static_cast<int>(route.members->size())),
      stages_(std::move(stages)),
      messages_(std::move(route)),
      pool_(scratch) {}

std::byte* MpiOperation::scratch(std::size_t size_bytes) {
  return scratch_.emplace_back(pool_.take(size_bytes)).data();
}

std::byte* MpiOperation::element(std::size_t index) const {
  return static_cast<std::byte*>(call_.data.data) + bytes(index);
}

std::size_t MpiOperation::bytes(std::size_t num_elements) const {
  return num_elements * size_of(call_.data.dtype);
}

Task::Advance MpiOperation::advance() {
  bool moved = false;
  while (true) {
    const Messages::Progress progress = messages_.poll();
    if (progress == Messages::Progress::kSome) return Advance::kMoved;
    if (progress == Messages::Progress::kNone) return moved ? Advance::kMoved : Advance::kWaiting;
    if (next_stage_ == stages_.size()) break;
    stages_[next_stage_++](*this);
    moved = true;
  }
  for (Buffer& buffer : scratch_) pool_.give_back(std::move(buffer));
  scratch_.clear();
  return Advance::kComplete;
}

std::string MpiOperation::describe() const {
  return trireme::describe(call_) + " on " + describe_rank(rank_, size_);
}

std::string MpiOperation::waits_for() const {
  return "rank " + rank_list(messages_.pending_ranks());
}

}  // namespace trireme
