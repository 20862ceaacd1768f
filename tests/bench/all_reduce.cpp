// SPDX-License-Identifier: Apache-2.0
// Times all_reduce (float32 sums, in place, in memory of Communicator::allocate) by size; rank 0
// prints one JSON line a size: the median over the repeats of the time from a barrier to the result
// on rank 0.
//   mpirun -np 2 bench_all_reduce [--messages] [BYTES ...]
// --messages: without shared memory, as between nodes.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "comm/mpi.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

constexpr int kRepeats = 21;

double median_seconds(Communicator& world, std::size_t size_bytes) {
  const std::size_t count = std::max<std::size_t>(1, size_bytes / sizeof(float));
  const Buffer buffer = world.allocate(count * sizeof(float));
  auto* data = reinterpret_cast<float*>(buffer.data());
  std::vector<double> seconds;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    std::fill_n(data, count, 1.0F);
    world.barrier();
    const auto start = std::chrono::steady_clock::now();
    world.all_reduce({data, count, DType::kF32}).wait();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    seconds.push_back(passed.count());
    if (data[count - 1] != static_cast<float>(world.size())) throw InternalError("a wrong sum");
  }
  const auto first = seconds.begin() + 1;  // the first one warms up
  std::sort(first, seconds.end());
  return first[kRepeats / 2];
}

int run(bool node_memory, const std::vector<std::size_t>& sizes) {
  MpiEnvironment environment({.node_memory = node_memory});
  const auto world = environment.world();
  for (const std::size_t size_bytes : sizes) {
    const double seconds = median_seconds(*world, size_bytes);
    if (world->rank() != 0) continue;
    std::printf("{\"bytes\": %zu, \"us\": %.1f, \"GB_per_s\": %.3f}\n", size_bytes, seconds * 1e6,
                static_cast<double>(size_bytes) / seconds / 1e9);
    std::fflush(stdout);
  }
  environment.finalize();
  return 0;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  bool node_memory = true;
  std::vector<std::size_t> sizes;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--messages") == 0) {
      node_memory = false;
    } else {
      sizes.push_back(std::strtoull(argv[i], nullptr, 10));
    }
  }
  if (sizes.empty()) {
    for (int k = 12; k < 27; k += 2) sizes.push_back(std::size_t{1} << k);
  }
  return trireme::run(node_memory, sizes);
}
