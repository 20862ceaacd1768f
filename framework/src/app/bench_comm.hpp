// SPDX-License-Identifier: Apache-2.0
// `trainer bench comm`: how fast the ranks sum, and how fast they could.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/command_line.hpp"
#include "app/launch.hpp"
#include "app/nodes.hpp"
#include "trireme/registry.hpp"

namespace trireme {

// One size. Times are of the slowest rank, from a barrier on; seconds.
struct BenchRow {
  std::uint64_t size_bytes = 0;
  double min_seconds = 0;     // of all_reduce
  double median_seconds = 0;  // of all_reduce
  // What all_reduce could at best take. On one node each rank has to read and write size_bytes,
  // which takes as long as when all ranks copy that much at once. Over N nodes each node has to
  // send and receive 2 (N - 1) / N of them, which is timed as transfers both ways between pairs of
  // nodes, all ranks at once.
  double limit_seconds = 0;
};

// Bytes of the data a second.
double algorithm_bandwidth(const BenchRow& row);
// How much of the data each link carries, each way, in a sum: 2 (n - 1) / n, as nccl-tests has it
// for n ranks with a link each. Here it is the nodes that have links, where there are several.
double bus_factor(const Nodes& nodes);
// Bytes a second that a link carries. On one node, where there is none, this is a name only.
double bus_bandwidth(const BenchRow& row, const Nodes& nodes);
// Bytes a second that were measured for the limit: what each rank copies, with all at it; over
// several nodes what each node sends, and receives meanwhile.
double limit_bandwidth(const BenchRow& row, const Nodes& nodes);

// Collective, with at least two ranks. float32 sums, in place, in memory of Communicator::allocate.
// CommError where a sum is wrong. size_bytes: a multiple of 4.
BenchRow bench_all_reduce(Communicator& world, const Nodes& nodes, std::uint64_t size_bytes);

// A line to warn with where overrides ("key=value") set what is not of section network, which a
// benchmark does not use; else "".
std::string warning_of_unused(const std::vector<std::string>& overrides);

// Collective. Measures and prints a table, or JSON lines; returns the exit code.
int bench_comm(const CommandLine& command_line, const Registry& registry, Launch& launch);

}  // namespace trireme
