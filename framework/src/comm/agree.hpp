// SPDX-License-Identifier: Apache-2.0
// Agreement of all ranks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/communicator.hpp"

namespace trireme {

// Collective. Throws CommError on every rank, with the same text, where the ranks' lists are not
// equal: it names `what` ("the model's parameters"), the first item that differs, and which ranks
// have what there. Lists travel only where their hashes differ.
void require_equal(Communicator& communicator, std::string_view what,
                   const std::vector<std::string>& items);

// Collective. Whether any rank says yes; the same everywhere.
bool any_rank(Communicator& communicator, bool mine);

}  // namespace trireme
