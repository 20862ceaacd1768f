// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "trireme/communicator.hpp"

namespace trireme {

// Keeps the memory that operations receive into, so that a training step takes what the step before
// took and faults no pages in. Not thread-safe.
class ScratchPool {
 public:
  // At least this large; the contents are left over from earlier use.
  Buffer take(std::size_t size_bytes);
  void give_back(Buffer buffer);

 private:
  std::vector<Buffer> free_;
};

}  // namespace trireme
