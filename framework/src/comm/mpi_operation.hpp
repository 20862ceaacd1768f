// SPDX-License-Identifier: Apache-2.0
// One collective over MPI: a list of stages, each of which starts messages; the next begins when
// all of them have arrived. Internal to the MPI communicator.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/collective_task.hpp"
#include "comm/messages.hpp"
#include "comm/scratch.hpp"

namespace trireme {

class MpiOperation : public CollectiveTask {
 public:
  // Runs on the progress thread: computes on what arrived before, and starts messages.
  using Stage = std::function<void(MpiOperation&)>;

  // scratch: outlives the progress thread's use of this operation.
  MpiOperation(Call call, int rank, Route route, std::vector<Stage> stages, ScratchPool& scratch,
               std::chrono::milliseconds timeout);

  // For stages.
  Messages& messages() { return messages_; }
  // Memory until the operation ends.
  std::byte* scratch(std::size_t size_bytes);

  std::vector<std::uint64_t> text_bytes;  // [rank]; exchange only

 protected:
  Advance advance() override;
  std::string waits_for() const override;

 private:
  std::vector<Stage> stages_;
  std::size_t next_stage_ = 0;
  Messages messages_;
  ScratchPool& pool_;
  std::vector<Buffer> scratch_;
};

}  // namespace trireme
