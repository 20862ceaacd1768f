// SPDX-License-Identifier: Apache-2.0
// One collective over MPI: a list of stages, each of which starts messages; the next begins when
// all of them have arrived. Internal to the MPI communicator.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/call.hpp"
#include "comm/messages.hpp"
#include "comm/scratch.hpp"
#include "comm/task.hpp"

namespace trireme {

class MpiOperation : public Task {
 public:
  // Runs on the progress thread: computes on what arrived before, and starts messages.
  using Stage = std::function<void(MpiOperation&)>;

  // scratch: outlives the progress thread's use of this operation.
  MpiOperation(Call call, int rank, Route route, std::vector<Stage> stages, ScratchPool& scratch,
               std::chrono::milliseconds timeout);

  // For stages.
  const Call& call() const { return call_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  Messages& messages() { return messages_; }
  // Memory until the operation ends.
  std::byte* scratch(std::size_t size_bytes);
  std::byte* element(std::size_t index) const;
  std::size_t bytes(std::size_t num_elements) const;

  // exchange only. The stages write it; the caller may take it once the operation is complete.
  std::vector<std::string> texts;         // [rank]
  std::vector<std::uint64_t> text_bytes;  // [rank]

 protected:
  Advance advance() override;
  std::string describe() const override;
  std::string waits_for() const override;

 private:
  const Call call_;
  const int rank_;
  const int size_;
  std::vector<Stage> stages_;
  std::size_t next_stage_ = 0;
  Messages messages_;
  ScratchPool& pool_;
  std::vector<Buffer> scratch_;
};

}  // namespace trireme
