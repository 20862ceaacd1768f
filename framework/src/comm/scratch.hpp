// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

#include "trireme/communicator.hpp"

namespace trireme {

// Keeps the memory that operations work in, so that a training step takes what the step before took
// and faults no pages in. Any thread may call it.
class ScratchPool {
 public:
  explicit ScratchPool(std::function<Buffer(std::size_t)> allocate);

  // At least this large; the contents are left over from earlier use.
  Buffer take(std::size_t size_bytes);
  void give_back(Buffer buffer);

 private:
  const std::function<Buffer(std::size_t)> allocate_;
  std::mutex mutex_;
  std::vector<Buffer> free_;
};

}  // namespace trireme
