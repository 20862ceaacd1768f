// SPDX-License-Identifier: Apache-2.0
#include "app/bench_comm.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "app/sinks.hpp"
#include "app/source.hpp"
#include "base/text.hpp"

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
  return bus_factor(nodes) * static_cast<double>(size_bytes) / rate;
}

std::vector<std::uint64_t> default_sizes() {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = 4; size <= std::uint64_t{64} << 20; size *= 4) sizes.push_back(size);
  return sizes;
}

std::string fixed_point(double number, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, number);
  return text;
}

// "2 ranks on 1 node"
std::string who(const Nodes& nodes) {
  return plural(static_cast<std::int64_t>(nodes.node_of.size()), "rank") + " on " +
         plural(nodes.count(), "node");
}

std::string header(const Launch& launch, const Nodes& nodes, bool shared) {
  const bool one = nodes.count() == 1;
  return "all_reduce of float32, in place: " + who(nodes) + ", " +
         (shared ? "memory shared within a node" : "no shared memory") + ", messages over " +
         launch.transport() + "\nbusbw: algbw * " +
         (one ? "2 (p - 1) / p for p ranks"
              : "2 (N - 1) / N for N nodes: what a node's link carries") +
         " = algbw * " + fixed_point(bus_factor(nodes), 3) + "\nlimit: " +
         (one ? "all ranks copy as many bytes at once"
              : "transfers both ways between pairs of nodes, all ranks at once") +
         "\n\n       bytes      min us   median us  algbw GB/s  busbw GB/s  of limit\n";
}

std::string table_line(const BenchRow& row, const Nodes& nodes) {
  char line[128];
  std::snprintf(line, sizeof line, "%12llu  %10.1f  %10.1f  %10.3f  %10.3f  %7.0f%%\n",
                static_cast<unsigned long long>(row.size_bytes), row.min_seconds * 1e6,
                row.median_seconds * 1e6, algorithm_bandwidth(row) / 1e9,
                bus_bandwidth(row, nodes) / 1e9, 100 * row.limit_seconds / row.median_seconds);
  return line;
}

// What the limit was, in words.
std::string footer(const BenchRow& row, const Nodes& nodes) {
  const std::string rate = fixed_point(limit_bandwidth(row, nodes) / 1e9, 3) + " GB/s";
  return "\nlimit at " + std::to_string(row.size_bytes) + " bytes: " +
         (nodes.count() == 1 ? "each rank copies " + rate + " while the others do"
                             : "each node sends " + rate + " and receives as much meanwhile") +
         "; so all_reduce could take " + fixed_point(row.limit_seconds * 1e6, 1) +
         " us, and takes " + fixed_point(row.median_seconds * 1e6, 1) + "\n";
}

std::string json_line(const BenchRow& row, const Nodes& nodes) {
  return Json{{"bytes", row.size_bytes},
              {"min_us", row.min_seconds * 1e6},
              {"median_us", row.median_seconds * 1e6},
              {"algbw_GB_per_s", algorithm_bandwidth(row) / 1e9},
              {"busbw_GB_per_s", bus_bandwidth(row, nodes) / 1e9},
              {"limit_us", row.limit_seconds * 1e6},
              {"limit_GB_per_s", limit_bandwidth(row, nodes) / 1e9},
              {"of_limit", row.limit_seconds / row.median_seconds}}
             .dump() +
         "\n";
}

std::string json_header(const Launch& launch, const Nodes& nodes, bool shared) {
  return Json{{"ranks", nodes.node_of.size()},
              {"nodes", nodes.count()},
              {"shared_memory", shared},
              {"transport", launch.transport()},
              {"bus_factor", bus_factor(nodes)}}
             .dump() +
         "\n";
}

// On stderr, before what may take long, so that nobody takes it for a hang. last: the row before;
// null: there is none yet. Times grow with the size at most, once it is more than a few messages.
void announce(std::uint64_t size_bytes, const BenchRow* last) {
  constexpr std::uint64_t kTellingBytes = 64 << 10, kLargeBytes = 1 << 20;
  constexpr double kLongSeconds = 2;
  std::string guess;
  if (last != nullptr && last->size_bytes >= kTellingBytes) {
    const double scale = static_cast<double>(size_bytes) / static_cast<double>(last->size_bytes);
    const double seconds =
        (kWarmUps + kRepeats) * (last->median_seconds + last->limit_seconds) * std::max(1.0, scale);
    if (seconds < kLongSeconds) return;
    guess = ", up to " + std::to_string(std::lround(seconds)) + " s";
  } else if (size_bytes < kLargeBytes) {
    return;
  }
  std::cerr << "trireme: measuring " + std::to_string(size_bytes) + " bytes" + guess + "\n"
            << std::flush;
}

}  // namespace

double algorithm_bandwidth(const BenchRow& row) {
  return static_cast<double>(row.size_bytes) / row.median_seconds;
}

double bus_factor(const Nodes& nodes) {
  const auto links = nodes.count() > 1 ? static_cast<double>(nodes.count())
                                       : static_cast<double>(nodes.node_of.size());
  return 2 * (links - 1) / links;
}

double bus_bandwidth(const BenchRow& row, const Nodes& nodes) {
  return algorithm_bandwidth(row) * bus_factor(nodes);
}

double limit_bandwidth(const BenchRow& row, const Nodes& nodes) {
  const double share = nodes.count() == 1 ? 1 : bus_factor(nodes);
  return share * static_cast<double>(row.size_bytes) / row.limit_seconds;
}

BenchRow bench_all_reduce(Communicator& world, const Nodes& nodes, std::uint64_t size_bytes) {
  const std::size_t count = size_bytes / sizeof(float);
  const Buffer buffer = world.allocate(size_bytes);
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
  return {.size_bytes = size_bytes,
          .min_seconds = seconds.front(),
          .median_seconds = median(seconds),
          .limit_seconds = limit_seconds(world, nodes, size_bytes)};
}

std::string warning_of_unused(const std::vector<std::string>& overrides) {
  std::vector<std::string> keys;
  for (const std::string& text : overrides) {
    const std::string key = text.substr(0, text.find('='));
    if (!key.starts_with("network.")) keys.push_back(key);
  }
  if (keys.empty()) return {};
  return "bench comm uses section network alone: " + joined(keys) +
         (keys.size() == 1 ? " has" : " have") +
         " no effect; what a training does with it shows in comm_exposed_ms of some steps";
}

int bench_comm(const CommandLine& line, const Registry& registry, Launch& launch) {
  Communicator& world = launch.world();
  const std::string unused = warning_of_unused(line.overrides);
  if (!unused.empty() && world.rank() == 0) warn(unused);
  if (!line.target.empty()) read_config(named_file(line, world), changes_of(line), registry, world);
  const Nodes nodes = find_nodes(world);
  const bool alone = world.size() == 1;
  const bool shared = nodes.count() < world.size() && launch.without_node_memory().empty();
  const std::string nothing = "one rank: there is nothing to measure; start it with mpirun -np 2";
  if (line.json) {
    if (alone) warn(nothing);
    say(launch, json_header(launch, nodes, shared));
  } else {
    say(launch, describe_network(launch.network(), launch.transport(), nodes.count()));
    say(launch, alone ? nothing + "\n" : header(launch, nodes, shared));
  }
  if (alone) return 0;
  std::optional<BenchRow> row;
  for (const std::uint64_t size : line.sizes.empty() ? default_sizes() : line.sizes) {
    if (world.rank() == 0) announce(size, row ? &*row : nullptr);
    row = bench_all_reduce(world, nodes, size);
    say(launch, line.json ? json_line(*row, nodes) : table_line(*row, nodes));
  }
  if (!line.json && row) say(launch, footer(*row, nodes));
  return 0;
}

}  // namespace trireme
