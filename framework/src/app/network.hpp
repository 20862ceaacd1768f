// SPDX-License-Identifier: Apache-2.0
// Section network of the configuration: every rank applies it before MPI starts, and all agree on
// it afterwards.
//
// Note [Before MPI]
// Ranks cannot agree before MPI has started, and MPI may not start, or never connect, where one
// host follows the settings and another cannot. So what is wrong with a host ends its ranks before
// MPI starts: the first of them says why, and the launcher ends the others. What is wrong with the
// text is left to the reader that all ranks share, and ranks that were told different things find
// out in require_network.
#pragma once

#include <string>
#include <vector>

#include "app/command_line.hpp"
#include "app/network_variables.hpp"
#include "trireme/communicator.hpp"

namespace trireme {

// What a rank made of the settings before MPI started.
struct NetworkSetup {
  NetworkConfig config;  // the defaults where there is no MPI
  AppliedNetwork applied;
  std::string unread;  // why the settings could not be read; then none were applied
  std::vector<std::string> without_mpi;  // "key: value" that is set, where no MPI can follow it
};

// Reads section network of what the command is about and sets the variables of Open MPI and UCX.
// ConfigError where this host cannot follow them, or where they cannot be read and the command has
// no configuration that would be read again. By hand, without MPI, nothing is set. Before MPI and
// other threads. See Note [Before MPI].
NetworkSetup prepare_network(const CommandLine& command_line);

// For `trainer doctor` on several hosts, before MPI starts: what may keep MPI's TCP from reaching
// them; "" where there is no such thing. host: this one's name.
std::string warning_of_bridges(const NetworkConfig& network, const NetworkDevices& devices,
                               const std::string& host);

// Collective. SharedError where ranks were given different settings, or where they are for another
// transport than what Open MPI chose. transport: as MpiEnvironment::transport().
void require_network(Communicator& world, const NetworkSetup& setup, const std::string& transport);

// For the user: what carries messages, what was set, what the environment kept, what only mpirun
// can set, and what has no effect without it; lines, or "" where all is at its default on one node.
std::string describe_network(const NetworkSetup& setup, const std::string& transport, int nodes);

}  // namespace trireme
