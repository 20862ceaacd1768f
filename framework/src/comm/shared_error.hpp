// SPDX-License-Identifier: Apache-2.0
// Errors at phase borders are decided by all ranks: either every rank goes on, or every rank ends
// with the same words.
#pragma once

#include <functional>

#include "trireme/communicator.hpp"
#include "trireme/error.hpp"

namespace trireme {

// Thrown on every rank with the same code and text, so that one rank prints it and all leave in
// order.
class SharedError : public Error {
 public:
  using Error::Error;
};

// Collective. Runs body on every rank; where any body throws an Error, every rank throws
// SharedError: the code of the lowest failing rank, and each distinct message once with the ranks
// it came from (none named where all ranks agree). The body may communicate only if no rank of the
// group it communicates in can fail before or between those collectives alone; a SharedError of a
// smaller group (a node) is exchanged like any other.
void collectively(Communicator& communicator, const std::function<void()>& body);

// "0-2, 5" for ascending {0, 1, 2, 5}.
std::string rank_list(const std::vector<int>& ranks);

}  // namespace trireme
