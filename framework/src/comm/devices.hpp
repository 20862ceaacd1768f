// SPDX-License-Identifier: Apache-2.0
// What this host has to talk to others with.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace trireme {

struct NetworkInterface {
  std::string name;                    // "eth0"
  std::vector<std::string> addresses;  // IPv4 with its network's length: "192.0.2.2/24"
  bool loopback = false;
  bool bridge = false;  // a software bridge, as Docker's docker0
};

struct NetworkDevices {
  std::vector<NetworkInterface>
      interfaces;                       // that are up and have an address; by the kernel's order
  std::vector<std::string> rdma_ports;  // InfiniBand and RoCE: "mlx5_0:1"; sorted
};

// sysfs: where the kernel lists devices. EnvironmentError where it does not tell its interfaces.
NetworkDevices find_network_devices(const std::filesystem::path& sysfs = "/sys/class");

// Names of the interfaces that a word means: a name, or a network such as 10.0.0.0/16 with all that
// have an address in it. Empty: none.
std::vector<std::string> interfaces_of(const NetworkDevices& devices, const std::string& word);

// "lo (127.0.0.1/8), eth0 (192.0.2.2/24)"
std::string describe(const std::vector<NetworkInterface>& interfaces);

}  // namespace trireme
