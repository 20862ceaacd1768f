// SPDX-License-Identifier: Apache-2.0
// Section network of the configuration, as Open MPI and UCX understand it: environment variables
// that they read when MPI starts.
#pragma once

#include <string>
#include <vector>

#include "comm/devices.hpp"
#include "config/config.hpp"

namespace trireme {

struct NetworkVariable {
  std::string key;    // of section network that wants it: "tcp_links"
  std::string name;   // "OMPI_MCA_btl_tcp_links"
  std::string value;  // "2"

  bool operator==(const NetworkVariable&) const = default;
};

// What the settings stand for. Keys at their defaults set nothing; transport auto chooses nothing.
std::vector<NetworkVariable> network_variables(const NetworkConfig& network,
                                               const NetworkDevices& devices);

// Where the settings have to work.
struct NetworkHost {
  std::string name;   // for the texts
  bool alone = true;  // no rank of the job is on another host
};

// What the host cannot follow: it has not what the settings name, or they leave only its loopback
// interface where others have to be reached. "network.interfaces: host a has no ...; expected ...".
std::vector<std::string> network_problems(const NetworkConfig& network,
                                          const NetworkDevices& devices, const NetworkHost& host);

// Whether the settings leave nothing but the host's loopback interface to reach others by.
bool is_loopback_alone(const NetworkConfig& network, const NetworkDevices& devices);

// What apply_network did.
struct AppliedNetwork {
  std::vector<NetworkVariable> set;
  std::vector<NetworkVariable> kept;  // the environment had another value, which stays: that one
};

// Sets the variables of this process but those that the environment (the user's, or mpirun's --mca
// and -x) has already. Call it before MPI starts and before there are other threads.
AppliedNetwork apply_network(const std::vector<NetworkVariable>& variables);

// "OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,vader,self"
std::string describe(const std::vector<NetworkVariable>& variables);

}  // namespace trireme
