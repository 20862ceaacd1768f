// SPDX-License-Identifier: Apache-2.0
// The communicators' suite for NCCL's, on the fake device: ranks are threads.
#include <gtest/gtest.h>

#include "comm/nccl.hpp"
#include "comm/threads.hpp"
#include "distributed/ranks.hpp"

namespace trireme::testing {

std::vector<Ranks> all_kinds() {
  std::vector<Ranks> kinds;
  for (const int ranks : {1, 2, 3, 4}) {
    kinds.push_back({"nccl" + std::to_string(ranks), [ranks](const auto& body) {
                       run_as_threads(ranks, [&](Communicator& host) {
                         body(*make_nccl_communicator(
                             host.split(0, host.rank()),
                             {.device = host.rank(), .timeout = std::chrono::seconds(60)}));
                       });
                     }});
  }
  return kinds;
}

}  // namespace trireme::testing
