// SPDX-License-Identifier: Apache-2.0
#include "comm/devices.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>

#include "base/files.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::uint32_t ipv4(const sockaddr* address) {
  sockaddr_in in{};
  std::memcpy(&in, address, sizeof in);
  return ntohl(in.sin_addr.s_addr);
}

struct Network {
  std::uint32_t address = 0;
  int length = 0;  // bits of the prefix

  bool contains(std::uint32_t other) const {
    const std::uint32_t mask = length == 0 ? 0 : ~std::uint32_t{0} << (32 - length);
    return (address & mask) == (other & mask);
  }
};

// "10.0.0.0/16"
std::optional<Network> parse_network(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) return std::nullopt;
  in_addr address{};
  if (inet_pton(AF_INET, text.substr(0, slash).c_str(), &address) != 1) return std::nullopt;
  Network network{.address = ntohl(address.s_addr)};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + slash + 1, end, network.length);
  if (error != std::errc() || stop != end || network.length < 0 || network.length > 32) {
    return std::nullopt;
  }
  return network;
}

std::string address_text(const ifaddrs& entry) {
  const in_addr address{htonl(ipv4(entry.ifa_addr))};
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &address, text, sizeof text);
  const int length = entry.ifa_netmask == nullptr ? 32 : std::popcount(ipv4(entry.ifa_netmask));
  return std::string(text) + "/" + std::to_string(length);
}

std::vector<NetworkInterface> find_interfaces(const fs::path& sysfs) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) {
    throw EnvironmentError("cannot list this host's network interfaces: " + describe_errno(errno));
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, freeifaddrs);
  std::vector<NetworkInterface> interfaces;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    const bool up = (entry->ifa_flags & IFF_UP) != 0;
    if (!up || entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    auto found = std::ranges::find(interfaces, entry->ifa_name, &NetworkInterface::name);
    if (found == interfaces.end()) {
      std::error_code none;  // what cannot be looked at is no bridge
      found = interfaces.insert(
          found, {.name = entry->ifa_name,
                  .addresses = {},
                  .loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0,
                  .bridge = fs::exists(sysfs / "net" / entry->ifa_name / "bridge", none)});
    }
    found->addresses.push_back(address_text(*entry));
  }
  return interfaces;
}

std::vector<std::string> entries(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;  // an absent directory has no entries
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

NetworkDevices find_network_devices(const fs::path& sysfs) {
  NetworkDevices devices{.interfaces = find_interfaces(sysfs), .rdma_ports = {}};
  for (const std::string& device : entries(sysfs / "infiniband")) {
    for (const std::string& port : entries(sysfs / "infiniband" / device / "ports")) {
      devices.rdma_ports.push_back(std::string(device).append(":").append(port));
    }
  }
  return devices;
}

std::vector<std::string> interfaces_of(const NetworkDevices& devices, const std::string& word) {
  const std::optional<Network> network = parse_network(word);
  std::vector<std::string> names;
  for (const NetworkInterface& interface : devices.interfaces) {
    const bool inside =
        network && std::ranges::any_of(interface.addresses, [&](const std::string& address) {
          return network->contains(parse_network(address)->address);
        });
    if (inside || interface.name == word) names.push_back(interface.name);
  }
  return names;
}

std::string describe(const std::vector<NetworkInterface>& interfaces) {
  std::string text;
  for (const NetworkInterface& interface : interfaces) {
    std::string addresses;
    for (const std::string& address : interface.addresses) {
      addresses += (addresses.empty() ? "" : ", ") + address;
    }
    text += (text.empty() ? "" : ", ") + interface.name + " (" + addresses + ")";
  }
  return text;
}

}  // namespace trireme
