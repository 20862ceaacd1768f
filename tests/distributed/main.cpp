// SPDX-License-Identifier: Apache-2.0
// Runs the suite alone, or as a rank of mpirun: then a failure on any rank fails the job.
// --messages lets data travel as messages within a node, too.
// --nodes-of K makes nodes of K consecutive ranks.
// --tiny-limits makes nodes of two, and makes every message longer than 1001 bytes travel in
// pieces, bounds the operations in flight to three, and gathers no small sums: what else only
// counts beyond 2^31 and long runs reach.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "comm/local.hpp"
#include "comm/mpi.hpp"
#include "comm/threads.hpp"
#include "ranks.hpp"

namespace trireme::testing {
namespace {

std::unique_ptr<Communicator>& world() {
  static std::unique_ptr<Communicator> communicator;
  return communicator;
}

}  // namespace

Communicator& mpi_world() { return *world(); }

std::vector<Ranks> all_kinds() {
  if (MpiEnvironment::launched()) {
    return {{"mpi", [](const auto& body) { body(mpi_world()); }}};
  }
  std::vector<Ranks> kinds = {
      {"local", [](const auto& body) { body(*make_local_communicator()); }}};
  for (const int ranks : {1, 2, 3, 4, 7}) {
    kinds.push_back({"threads" + std::to_string(ranks),
                     [ranks](const auto& body) { run_as_threads(ranks, body); }});
  }
  for (const auto& [ranks, node] : {std::pair(2, 1), std::pair(4, 2), std::pair(7, 3)}) {
    kinds.push_back({"threads" + std::to_string(ranks) + "in" + std::to_string(node) + "s",
                     [ranks = ranks, node = node](const auto& body) {
                       run_as_threads(ranks, body, {.ranks_per_node = node});
                     }});
  }
  return kinds;
}

namespace {

int run_under_mpi(const MpiOptions& options) {
  MpiEnvironment environment(options);
  world() = environment.world();
  if (environment.without_node_memory().empty() != options.node_memory) {
    std::fprintf(stderr, "node memory: %s\n", environment.without_node_memory().c_str());
    environment.abort(1);
  }
  world()->set_timeout(std::chrono::seconds(60));  // a rank that failed leaves the others waiting
  if (world()->rank() != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new ::testing::EmptyTestEventListener);
  }
  const int result = RUN_ALL_TESTS();
  if (result != 0) environment.abort(result);
  world().reset();
  environment.finalize();
  return 0;
}

}  // namespace
}  // namespace trireme::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (!trireme::MpiEnvironment::launched()) return RUN_ALL_TESTS();
  trireme::MpiOptions options;
  if (argc > 1 && std::strcmp(argv[1], "--messages") == 0) options.node_memory = false;
  if (argc > 2 && std::strcmp(argv[1], "--nodes-of") == 0)
    options.ranks_per_node = std::atoi(argv[2]);
  if (argc > 1 && std::strcmp(argv[1], "--tiny-limits") == 0) {
    options = {.max_message_bytes = 1001,
               .gather_limit_bytes = 0,
               .max_in_flight = 3,
               .ranks_per_node = 2};
  }
  return trireme::testing::run_under_mpi(options);
}
