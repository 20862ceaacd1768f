// SPDX-License-Identifier: Apache-2.0
// A rank that meets trouble, for expect_exit.sh: comm_fault KIND [--messages | --nodes]. Reports
// and ends as the trainer does: one line, then MPI_Abort with the error's exit code.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "comm/mpi.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

void reduce(Communicator& world, std::size_t count) {
  std::vector<float> data(count, 1.0f);
  world.all_reduce({data.data(), count, DType::kF32}).wait();
}

void reduce_until(Communicator& world, const std::function<void()>& trouble) {
  for (int round = 0;; ++round) {
    reduce(world, 50000);
    if (round == 50 && world.rank() == world.size() - 1) trouble();
  }
}

void one_is_killed(Communicator& world) {
  reduce_until(world, [] { raise(SIGKILL); });
}

void one_throws(Communicator& world) {
  reduce_until(world, [] { throw DataError("train.bin: sample 17 is damaged"); });
}

void one_leaves_without_a_word(Communicator& world) {
  reduce_until(world, [] { std::exit(70); });
}

// The last rank comes never.
void one_is_missing(Communicator& world) {
  reduce(world, 10);
  if (world.rank() == world.size() - 1) {
    while (true) pause();
  }
  world.set_timeout(std::chrono::milliseconds(300));
  reduce(world, 50000);
}

// More arrives than was expected, or less.
void counts_differ(Communicator& world) { reduce(world, world.rank() == 0 ? 40000 : 50000); }

void later_calls_fail(Communicator& world) {
  const auto other = world.split(0, world.rank());
  try {
    counts_differ(world);
  } catch (const CommError&) {
    other->barrier();  // throws, on every rank that has failed
  }
}

const std::map<std::string, void (*)(Communicator&)> kKinds = {
    {"killed", one_is_killed},
    {"throws", one_throws},
    {"leaves", one_leaves_without_a_word},
    {"missing", one_is_missing},
    {"counts", counts_differ},
    {"later-calls", later_calls_fail},
    {"nothing", [](Communicator& world) { reduce(world, 10); }},
};

// way: "", "--messages" (no memory is shared), "--nodes" (of two ranks).
int run(const std::string& kind, const std::string& way) {
  MpiEnvironment environment(
      {.node_memory = way != "--messages", .ranks_per_node = way == "--nodes" ? 2 : 0});
  try {
    const auto world = environment.world();
    kKinds.at(kind)(*world);
    environment.finalize();
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    environment.abort(static_cast<int>(error.code()));
  }
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  try {
    return trireme::run(argv[1], argc > 2 ? argv[2] : "");
  } catch (const trireme::Error& error) {  // the environment was never made
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
