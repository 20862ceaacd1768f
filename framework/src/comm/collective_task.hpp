// SPDX-License-Identifier: Apache-2.0
// A collective in flight under MPI, whatever moves its data. Internal to the MPI communicator.
#pragma once

#include <string>
#include <vector>

#include "comm/call.hpp"
#include "comm/task.hpp"

namespace trireme {

class CollectiveTask : public Task {
 public:
  CollectiveTask(Call call, int rank, int size, std::chrono::milliseconds timeout)
      : Task(timeout), call_(std::move(call)), rank_(rank), size_(size) {}

  const Call& call() const { return call_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  std::byte* element(std::size_t index) const {
    return static_cast<std::byte*>(call_.data.data) + bytes(index);
  }
  std::size_t bytes(std::size_t num_elements) const {
    return num_elements * size_of(call_.data.dtype);
  }

  // exchange only; the caller may take it once the operation is complete.
  std::vector<std::string> texts;  // [rank]

 protected:
  std::string describe() const override {
    return trireme::describe(call_) + " on " + describe_rank(rank_, size_);
  }

 private:
  const Call call_;
  const int rank_, size_;
};

}  // namespace trireme
