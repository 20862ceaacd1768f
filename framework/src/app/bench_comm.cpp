// SPDX-License-Identifier: Apache-2.0
#include "app/bench_comm.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>

#include <nlohmann/json.hpp>

#include "app/source.hpp"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kWarmUps = 3;
constexpr int kRepeats = 21;

// Collective. Sorted times of the repeats, each that of the slowest rank. Ranks that have no part
// in `action` give an empty one.
std::vector<double> time_repeats(Communicator& world, const std::function<void()>& prepare,
                                 const std::function<void()>& action) {
  std::vector<double> mine;
  for (int repeat = 0; repeat < kWarmUps + kRepeats; ++repeat) {
    prepare();
    world.barrier();
    const auto start = std::chrono::steady_clock::now();
    action();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    if (repeat >= kWarmUps) mine.push_back(passed.count());
  }
  std::vector<double> slowest(kRepeats, 0);
  std::vector<double> others(kRepeats);
  const auto size_bytes = kRepeats * sizeof(double);
  for (const std::string& bytes :
       world.exchange({reinterpret_cast<const char*>(mine.data()), size_bytes})) {
    std::memcpy(others.data(), bytes.data(), size_bytes);
    std::ranges::transform(slowest, others, slowest.begin(),
                           [](double a, double b) { return std::max(a, b); });
  }
  std::ranges::sort(slowest);
  return slowest;
}

double median(const std::vector<double>& sorted) { return sorted[sorted.size() / 2]; }

// All ranks copy at once; the best repeat.
double copy_seconds(Communicator& world, std::size_t size_bytes) {
  const Buffer from = world.allocate(size_bytes);
  const Buffer to = world.allocate(size_bytes);
  return time_repeats(
             world, [] {}, [&] { std::memcpy(to.data(), from.data(), size_bytes); })
      .front();
}

// Each rank of a pair of nodes sends size_bytes to its partner and receives as many; the best
// repeat.
double transfer_seconds(Communicator& world, const Nodes& nodes, std::size_t size_bytes) {
  const int node = nodes.node_of[static_cast<std::size_t>(world.rank())];
  const int pair = node / 2 * world.size() + nodes.local_rank(world.rank());
  const std::unique_ptr<Communicator> partners = world.split(pair, world.rank());
  const Buffer buffer = world.allocate(2 * size_bytes);
  const std::vector<std::size_t> halves{0, size_bytes, 2 * size_bytes};
  const auto transfer = [&] {
    if (partners->size() != 2) return;
    partners->all_gather({buffer.data(), 2 * size_bytes, DType::kU8}, halves).wait();
  };
  return time_repeats(
             world, [] {}, transfer)
      .front();
}

double limit_seconds(Communicator& world, const Nodes& nodes, std::size_t size_bytes) {
  if (nodes.count() == 1) return copy_seconds(world, size_bytes);
  const auto fewest = std::ranges::min_element(nodes.ranks, {}, &std::vector<int>::size)->size();
  const double rate = static_cast<double>(size_bytes) * static_cast<double>(fewest) /
                      transfer_seconds(world, nodes, size_bytes);  // of a node, each way
  const double count = nodes.count();
  return 2 * (count - 1) / count * static_cast<double>(size_bytes) / rate;
}

std::vector<std::uint64_t> default_sizes() {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = 4; size <= std::uint64_t{64} << 20; size *= 4) sizes.push_back(size);
  return sizes;
}

std::string header(const Launch& launch, const Nodes& nodes, bool shared, int ranks) {
  const bool one = nodes.count() == 1;
  return "all_reduce of float32, in place: " + std::to_string(ranks) + " ranks on " +
         std::to_string(nodes.count()) + (one ? " node, " : " nodes, ") +
         (shared ? "memory shared within a node" : "no shared memory") + ", messages over " +
         launch.transport() + "\nlimit: " +
         (one ? "all ranks copy as many bytes at once"
              : "transfers both ways between pairs of nodes, all ranks at once") +
         "\n\n       bytes      min us   median us  algbw GB/s  busbw GB/s  of limit\n";
}

std::string table_line(const BenchRow& row, int ranks) {
  char line[128];
  std::snprintf(line, sizeof line, "%12llu  %10.1f  %10.1f  %10.3f  %10.3f  %7.0f%%\n",
                static_cast<unsigned long long>(row.size_bytes), row.min_seconds * 1e6,
                row.median_seconds * 1e6, algorithm_bandwidth(row) / 1e9,
                bus_bandwidth(row, ranks) / 1e9, 100 * row.limit_seconds / row.median_seconds);
  return line;
}

std::string json_line(const BenchRow& row, int ranks) {
  return Json{{"bytes", row.size_bytes},
              {"min_us", row.min_seconds * 1e6},
              {"median_us", row.median_seconds * 1e6},
              {"algbw_GB_per_s", algorithm_bandwidth(row) / 1e9},
              {"busbw_GB_per_s", bus_bandwidth(row, ranks) / 1e9},
              {"limit_us", row.limit_seconds * 1e6},
              {"of_limit", row.limit_seconds / row.median_seconds}}
             .dump() +
         "\n";
}

std::string json_header(const Launch& launch, const Nodes& nodes, bool shared, int ranks) {
  return Json{{"ranks", ranks},
              {"nodes", nodes.count()},
              {"shared_memory", shared},
              {"transport", launch.transport()}}
             .dump() +
         "\n";
}

}  // namespace

double algorithm_bandwidth(const BenchRow& row) {
  return static_cast<double>(row.size_bytes) / row.median_seconds;
}

double bus_bandwidth(const BenchRow& row, int num_ranks) {
  return algorithm_bandwidth(row) * 2 * (num_ranks - 1) / num_ranks;
}

BenchRow bench_all_reduce(Communicator& world, const Nodes& nodes, std::uint64_t size_bytes) {
  const std::size_t count = size_bytes / sizeof(float);
  const Buffer buffer = world.allocate(count * sizeof(float));
  auto* data = reinterpret_cast<float*>(buffer.data());
  const auto ranks = static_cast<float>(world.size());
  const auto fill = [&] { std::fill_n(data, count, static_cast<float>(world.rank() + 1)); };
  const auto sum = [&] { world.all_reduce({data, count, DType::kF32}).wait(); };
  const std::vector<double> seconds = time_repeats(world, fill, sum);
  const float expected = ranks * (ranks + 1) / 2;
  if (std::any_of(data, data + count, [&](float value) { return value != expected; })) {
    throw CommError("a sum of " + std::to_string(count) + " float32 over " +
                    std::to_string(world.size()) + " ranks is wrong; expected " +
                    std::to_string(expected) + " everywhere");
  }
  return {.size_bytes = count * sizeof(float),
          .min_seconds = seconds.front(),
          .median_seconds = median(seconds),
          .limit_seconds = limit_seconds(world, nodes, count * sizeof(float))};
}

int bench_comm(const CommandLine& line, const Registry& registry, Launch& launch) {
  Communicator& world = launch.world();
  if (!line.target.empty()) read_config(named_file(line, world), changes_of(line), registry, world);
  const Nodes nodes = find_nodes(world);
  const int ranks = world.size();
  const bool shared = ranks > 1 && launch.without_node_memory().empty();
  if (line.json) {
    say(launch, json_header(launch, nodes, shared, ranks));
  } else {
    say(launch, describe_network(launch.network(), launch.transport(), nodes.count()));
    say(launch, ranks == 1 ? "one rank: there is nothing to measure; start it with mpirun -np 2\n"
                           : header(launch, nodes, shared, ranks));
  }
  if (ranks == 1) return 0;
  for (const std::uint64_t size : line.sizes.empty() ? default_sizes() : line.sizes) {
    const BenchRow row = bench_all_reduce(world, nodes, size);
    say(launch, line.json ? json_line(row, ranks) : table_line(row, ranks));
  }
  return 0;
}

}  // namespace trireme
