// SPDX-License-Identifier: Apache-2.0
#include "app/network_variables.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/text.hpp"

namespace trireme {
namespace {

// By name: UCX knows no networks, and Open MPI wants their length to be exactly the interface's.
std::vector<std::string> interface_names(const NetworkConfig& network,
                                         const NetworkDevices& devices) {
  std::vector<std::string> names;
  for (const std::string& word : network.interfaces) {
    for (const std::string& name : interfaces_of(devices, word)) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

std::string number(std::int64_t value, std::int64_t unset) {
  return value == unset ? "" : std::to_string(value);
}

// What to write in network.interfaces. Loopback reaches nobody, and is not offered.
std::string expected(const NetworkDevices& devices) {
  std::vector<NetworkInterface> others = devices.interfaces;
  std::erase_if(others, [](const NetworkInterface& interface) { return interface.loopback; });
  if (others.empty()) return "it has none that leads to other hosts";
  return "expected one of " + describe(others) + ", or a network that each host has an address in";
}

// Transports of UCX that need an InfiniBand or RoCE port.
bool needs_rdma(const std::string& transport) {
  const std::string kind = transport.substr(0, transport.find('_'));
  return kind == "ib" || kind == "rc" || kind == "ud" || kind == "dc";
}

}  // namespace

std::vector<NetworkVariable> network_variables(const NetworkConfig& network,
                                               const NetworkDevices& devices) {
  const bool ucx = network.transport == "ucx";
  const bool tcp = network.transport == "tcp";
  const std::vector<std::string> interfaces = interface_names(network, devices);
  std::vector<std::string> ucx_devices = interfaces;
  ucx_devices.insert(ucx_devices.end(), network.ucx_devices.begin(), network.ucx_devices.end());
  std::vector<NetworkVariable> variables;
  const auto add = [&](bool wanted, const char* key, const char* name, const std::string& value) {
    if (wanted && !value.empty()) variables.push_back({key, name, value});
  };
  // Debian builds Open MPI to use UCX only where UCX finds hardware that it was written for, and
  // not at all by default: `any` lifts the first, naming it the second.
  add(ucx, "transport", "OMPI_MCA_pml", "ucx");
  add(ucx, "transport", "OMPI_MCA_pml_ucx_tls", "any");
  add(ucx, "transport", "OMPI_MCA_pml_ucx_devices", "any");
  add(tcp, "transport", "OMPI_MCA_pml", "ob1");
  add(tcp, "transport", "OMPI_MCA_btl", "tcp,vader,self");  // vader: shared memory within a node
  add(!ucx, "interfaces", "OMPI_MCA_btl_tcp_if_include", joined(interfaces, ","));
  add(ucx, network.ucx_devices.empty() ? "interfaces" : "ucx_devices", "UCX_NET_DEVICES",
      joined(ucx_devices, ","));
  add(ucx, "ucx_tls", "UCX_TLS", joined(network.ucx_tls, ","));
  const std::string rendezvous = number(network.rendezvous_bytes, 0);
  add(tcp, "rendezvous_bytes", "OMPI_MCA_btl_tcp_eager_limit", rendezvous);
  add(ucx, "rendezvous_bytes", "UCX_RNDV_THRESH", rendezvous);
  add(network.yield_when_idle != "auto", "yield_when_idle", "OMPI_MCA_mpi_yield_when_idle",
      network.yield_when_idle == "always" ? "1" : "0");
  add(tcp, "tcp_links", "OMPI_MCA_btl_tcp_links", number(network.tcp_links, 0));
  add(tcp, "tcp_send_buffer", "OMPI_MCA_btl_tcp_sndbuf", number(network.tcp_send_buffer, 0));
  add(tcp, "tcp_receive_buffer", "OMPI_MCA_btl_tcp_rcvbuf", number(network.tcp_receive_buffer, 0));
  add(ucx && network.ucx_rndv_scheme != "auto", "ucx_rndv_scheme", "UCX_RNDV_SCHEME",
      network.ucx_rndv_scheme);
  add(ucx, "ucx_gid_index", "UCX_IB_GID_INDEX", number(network.ucx_gid_index, -1));
  add(ucx, "ucx_service_level", "UCX_IB_SL", number(network.ucx_service_level, -1));
  return variables;
}

bool is_loopback_alone(const NetworkConfig& network, const NetworkDevices& devices) {
  const std::vector<std::string> names = interface_names(network, devices);
  if (names.empty() || (network.transport == "ucx" && !network.ucx_devices.empty())) return false;
  return std::ranges::none_of(devices.interfaces, [&](const NetworkInterface& interface) {
    return !interface.loopback && std::ranges::find(names, interface.name) != names.end();
  });
}

std::vector<std::string> network_problems(const NetworkConfig& network,
                                          const NetworkDevices& devices, const NetworkHost& host) {
  std::vector<std::string> problems;
  const auto add = [&](const char* key, const std::string& text) {
    problems.push_back(std::string("network.") + key + ": host " + host.name + " " + text);
  };
  for (const std::string& word : network.interfaces) {
    if (!interfaces_of(devices, word).empty()) continue;
    add("interfaces", "has no interface '" + word + "' with an IPv4 address; " + expected(devices));
  }
  if (!host.alone && is_loopback_alone(network, devices)) {
    add("interfaces", "is left with its loopback interface, [" + joined(network.interfaces) +
                          "], and this job has ranks on other hosts, which that does not reach; " +
                          expected(devices));
  }
  const std::string ports =
      devices.rdma_ports.empty()
          ? std::string("it has no InfiniBand or RoCE device (/sys/class/infiniband)")
          : "expected one of " + joined(devices.rdma_ports);
  for (const std::string& port : network.ucx_devices) {
    if (std::ranges::find(devices.rdma_ports, port) != devices.rdma_ports.end()) continue;
    add("ucx_devices", "has no port '" + port + "'; " + ports);
  }
  if (!devices.rdma_ports.empty()) return problems;
  for (const std::string& transport : network.ucx_tls) {
    if (!needs_rdma(transport)) continue;
    add("ucx_tls", "cannot use '" + transport + "': " + ports +
                       "; without one, take configs/network/tcp.yaml, or here [tcp, self]");
  }
  for (const auto& [key, set] : {std::pair("ucx_gid_index", network.ucx_gid_index != -1),
                                 std::pair("ucx_service_level", network.ucx_service_level != -1)}) {
    if (set) add(key, "cannot follow it: " + ports + "; delete the key");
  }
  return problems;
}

AppliedNetwork apply_network(const std::vector<NetworkVariable>& variables) {
  AppliedNetwork applied;
  for (const NetworkVariable& variable : variables) {
    // Open MPI takes one of the two lists only.
    const bool excludes = variable.name == "OMPI_MCA_btl_tcp_if_include" &&
                          std::getenv("OMPI_MCA_btl_tcp_if_exclude") != nullptr;
    const std::string name = excludes ? "OMPI_MCA_btl_tcp_if_exclude" : variable.name;
    const char* before = std::getenv(name.c_str());
    if (before == nullptr) {
      setenv(name.c_str(), variable.value.c_str(), 1);
      applied.set.push_back(variable);
    } else if (before != variable.value || excludes) {
      applied.kept.push_back({variable.key, name, before});
    }
  }
  return applied;
}

std::string describe(const std::vector<NetworkVariable>& variables) {
  std::string text;
  for (const NetworkVariable& variable : variables) {
    text += (text.empty() ? "" : " ") + variable.name + "=" + variable.value;
  }
  return text;
}

}  // namespace trireme
