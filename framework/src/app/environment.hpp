// SPDX-License-Identifier: Apache-2.0
// What a run depends on besides its configuration: for --version, env.json and checkpoints.
#pragma once

#include <string>
#include <vector>

#include "app/network_variables.hpp"
#include "parallel/link.hpp"
#include "trireme/communicator.hpp"

namespace trireme {

struct InitialWeights;

std::string version_text();  // of Trireme and the libraries in use; several lines

struct Environment {
  std::vector<std::string> hosts;  // [rank]
  int nodes = 1;
  int threads_per_rank = 1;
  std::string
      json;  // an object: versions, instruction set, ranks, hosts, devices, threads, transport
};
// The object with what measure_link() found, too.
std::string with_link(const std::string& json, const Link& link);
// The object with what model.init_from gave the run, too.
std::string with_initial_weights(const std::string& json, const InitialWeights& weights);
// now, with what both functions above have added to `before`, the text of an earlier object.
std::string keep_found_at_start(const std::string& before, const std::string& now);

// How messages travel, as survey() shows it.
struct Transport {
  std::string messages;      // as MpiEnvironment::transport()
  std::string thread_level;  // as MpiEnvironment::thread_level()
  AppliedNetwork network;
};

struct Whereabouts {
  std::string host;
  std::string device;  // "cpu", or the GPU's name
};

// Collective. CommError on every rank where ranks differ in version, LibTorch, CUDA, NCCL,
// instruction set or threads: sums would not be what one rank computes.
Environment survey(Communicator& world, const Whereabouts& where, int threads,
                   const Transport& transport);

// A line to warn with where a node's ranks want more threads than they have cores; "" where all is
// well. Collective.
std::string oversubscription(Communicator& world, int threads);

}  // namespace trireme
