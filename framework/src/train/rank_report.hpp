// SPDX-License-Identifier: Apache-2.0
// Who keeps whom waiting. Sums make all ranks' steps equally long; only when each one came to them
// tells who is slow.
#pragma once

#include <cstdint>
#include <string>

#include "observe/observer.hpp"
#include "trireme/communicator.hpp"

namespace trireme {

struct ReportedSteps {
  std::int64_t step = 0;   // the last one
  std::int64_t steps = 0;  // > 0, up to it
};

// Collective. What the ranks did since the last call, by the activity of this thread; the same
// event on every rank. Nothing (ranks is empty) where this thread has none. host: this rank's.
//
// A rank waits in each phase until the last one has come and the data has moved, which takes all
// equally long. So it came as much later than the first as it has waited less. No clock of one
// rank is compared with another's.
RanksEvent report_ranks(const ReportedSteps& steps, const std::string& host,
                        Communicator& communicator);

}  // namespace trireme
