// SPDX-License-Identifier: Apache-2.0
// Times sums over all ranks (float32, in place, in memory of Communicator::allocate) by size; rank
// 0 prints one JSON line a size: the median over the repeats of the time from a barrier to the
// result on rank 0.
//   mpirun -np 2 bench_all_reduce [--messages] [--wire fp32|fp16|bf16 | --transfer [--period MS]]
//                                 [BYTES ...]
// --messages: without shared memory, as between nodes.
// --wire: node_reduce_scatter, as gradients are summed, with this type between nodes.
// --transfer: no sum; ranks in pairs send each other the bytes that a sum over two ranks moves,
// both ways at once: what the link can do. --period: one such transfer each MS milliseconds, as
// training does it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/call.hpp"
#include "comm/mpi.hpp"
#include "trireme/error.hpp"

namespace trireme {

constexpr int kRepeats = 21;

struct BenchOptions {
  bool node_memory = true;
  bool transfer = false;
  std::chrono::milliseconds period{0};
  std::optional<WireType> wire;
};

namespace {

// A pair's broadcasts to each other at the same time.
void transfer(Communicator& pair, Communicator& other, Span there, Span back) {
  Request first = pair.broadcast(there, 0);
  Request second = other.broadcast(back, 1);
  first.wait();
  second.wait();
}

double median_seconds(Communicator& world, std::size_t size_bytes, const BenchOptions& options) {
  const auto pair = world.split(world.rank() / 2, world.rank());
  const auto other = pair->split(0, pair->rank());
  const Placement here = world.placement();
  const std::size_t count = std::max<std::size_t>(1, size_bytes / sizeof(float));
  const Buffer buffer = world.allocate(count * sizeof(float));
  const Buffer second = world.allocate(count * sizeof(float));
  auto* data = reinterpret_cast<float*>(buffer.data());
  auto* back = reinterpret_cast<float*>(second.data());
  std::vector<double> seconds;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    std::fill_n(data, count, 1.0F);
    world.barrier();
    const auto start = std::chrono::steady_clock::now();
    if (options.transfer) {
      transfer(*pair, *other, {data, count, DType::kF32}, {back, count, DType::kF32});
    } else if (options.wire) {
      const auto offsets = even_offsets(count, here.max_local_size);
      world.node_reduce_scatter({data, count, DType::kF32}, offsets, {.type = *options.wire})
          .wait();
    } else {
      world.all_reduce({data, count, DType::kF32}).wait();
    }
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    std::this_thread::sleep_until(start + options.period);
    seconds.push_back(passed.count());
    const bool sums = !options.transfer && !options.wire;
    if (sums && data[count - 1] != static_cast<float>(world.size()))
      throw InternalError("a wrong sum");
  }
  const auto first = seconds.begin() + 1;  // the first one warms up
  std::sort(first, seconds.end());
  return first[kRepeats / 2];
}

int run(const BenchOptions& options, const std::vector<std::size_t>& sizes) {
  MpiEnvironment environment({.node_memory = options.node_memory});
  const auto world = environment.world();
  for (const std::size_t size_bytes : sizes) {
    const double seconds = median_seconds(*world, size_bytes, options);
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
  trireme::BenchOptions options;
  std::vector<std::size_t> sizes;
  const std::map<std::string, trireme::WireType> wires = {{"fp32", trireme::WireType::kSame},
                                                          {"fp16", trireme::WireType::kF16},
                                                          {"bf16", trireme::WireType::kBF16}};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--messages") {
      options.node_memory = false;
    } else if (argument == "--transfer") {
      options.transfer = true;
    } else if (argument == "--period" && i + 1 < argc) {
      options.period = std::chrono::milliseconds(std::atoi(argv[++i]));
    } else if (argument == "--wire" && i + 1 < argc) {
      options.wire = wires.at(argv[++i]);
    } else {
      sizes.push_back(std::strtoull(argv[i], nullptr, 10));
    }
  }
  if (sizes.empty()) {
    for (int k = 12; k < 27; k += 2) sizes.push_back(std::size_t{1} << k);
  }
  return trireme::run(options, sizes);
}
