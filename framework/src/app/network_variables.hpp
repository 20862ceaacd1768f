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

// What the settings name and the host does not have: "network.interfaces: host a has no ...;
// expected ...". host: its name, for the texts.
std::vector<std::string> network_problems(const NetworkConfig& network,
                                          const NetworkDevices& devices, const std::string& host);

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
