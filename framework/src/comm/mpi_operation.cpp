// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi_operation.hpp"

#include <utility>

#include "comm/shared_error.hpp"

namespace trireme {

MpiOperation::MpiOperation(Call call, int rank, Route route, std::vector<Stage> stages,
                           ScratchPool& scratch, std::chrono::milliseconds timeout)
    : CollectiveTask(std::move(call), rank, static_cast<int>(route.members->size()), timeout),
      stages_(std::move(stages)),
      messages_(std::move(route)),
      pool_(scratch) {}

std::byte* MpiOperation::scratch(std::size_t size_bytes) {
  return scratch_.emplace_back(pool_.take(size_bytes)).data();
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

std::string MpiOperation::waits_for() const {
  return "rank " + rank_list(messages_.pending_ranks());
}

}  // namespace trireme
