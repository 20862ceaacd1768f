// SPDX-License-Identifier: Apache-2.0
// Section network of the configuration: every rank applies it before MPI starts, and all agree on
// it afterwards.
#pragma once

#include <string>
#include <vector>

#include "app/command_line.hpp"
#include "app/network_variables.hpp"
#include "trireme/communicator.hpp"

namespace trireme {

// What a rank made of the settings before MPI started.
struct NetworkSetup {
  NetworkConfig config;
  AppliedNetwork applied;
  std::vector<NetworkProblem> problems;  // keys that were left out, for require_network
  std::string unread;  // why the settings could not be read; then none were applied
};

// Reads section network of what the command is about and sets the variables of Open MPI and UCX.
// Nothing is thrown: what is wrong with the text is found again by the reader that all ranks share,
// the rest by require_network. By hand, without MPI, nothing is set. Before MPI and other threads.
NetworkSetup prepare_network(const CommandLine& command_line);

// Collective. SharedError where ranks were given different settings, or a host cannot follow them,
// or where they are for another transport than what Open MPI chose. transport: as
// MpiEnvironment::transport().
void require_network(Communicator& world, const NetworkSetup& setup, const std::string& transport);

// For the user: what carries messages, what was set, what the environment kept, and what only
// mpirun can set; lines, or "" where all is at its default on one node.
std::string describe_network(const NetworkSetup& setup, const std::string& transport, int nodes);

}  // namespace trireme
