// SPDX-License-Identifier: Apache-2.0
#include "comm/devices.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temporary_directory.hpp"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

NetworkDevices two_networks() {
  NetworkDevices devices;
  devices.interfaces = {
      {.name = "lo", .addresses = {"127.0.0.1/8"}, .loopback = true},
      {.name = "eth0", .addresses = {"10.0.3.7/24", "192.168.1.9/24"}, .loopback = false},
      {.name = "ib0", .addresses = {"10.1.0.7/16"}, .loopback = false}};
  return devices;
}

TEST(Devices, AWordMeansAnInterfaceByNameOrAllInANetwork) {
  const NetworkDevices devices = two_networks();
  EXPECT_THAT(interfaces_of(devices, "eth0"), ElementsAre("eth0"));
  EXPECT_THAT(interfaces_of(devices, "10.1.0.0/16"), ElementsAre("ib0"));
  EXPECT_THAT(interfaces_of(devices, "10.0.0.0/8"), ElementsAre("eth0", "ib0"));
  EXPECT_THAT(interfaces_of(devices, "192.168.1.9/32"), ElementsAre("eth0"));
  EXPECT_THAT(interfaces_of(devices, "0.0.0.0/0"), ElementsAre("lo", "eth0", "ib0"));
}

TEST(Devices, WhatIsNeitherMeansNone) {
  for (const char* word : {"eth", "eth00", "10.2.0.0/16", "10.1.0.0", "10.1.0.0/", "10.1.0.0/33",
                           "10.1.0.0/x", "10.1.0.0/-1", "10.1/16", "/16", ""}) {
    EXPECT_THAT(interfaces_of(two_networks(), word), IsEmpty()) << word;
  }
}

TEST(Devices, AreListedWithTheirAddresses) {
  EXPECT_EQ(describe(two_networks().interfaces),
            "lo (127.0.0.1/8), eth0 (10.0.3.7/24, 192.168.1.9/24), ib0 (10.1.0.7/16)");
}

TEST(Devices, ThisHostHasItsLoopback) {
  const NetworkDevices devices = find_network_devices();
  EXPECT_THAT(interfaces_of(devices, "127.0.0.1/32"), ElementsAre("lo"));
}

TEST(Devices, PortsAndBridgesAreWhatTheKernelLists) {
  const test::TemporaryDirectory sysfs;
  for (const char* folder : {"infiniband/mlx5_1/ports/1", "infiniband/mlx5_0/ports/1",
                             "infiniband/mlx5_0/ports/2", "net/lo/bridge"}) {
    std::filesystem::create_directories(sysfs.path() / folder);
  }
  const NetworkDevices devices = find_network_devices(sysfs.path());
  EXPECT_THAT(devices.rdma_ports, ElementsAre("mlx5_0:1", "mlx5_0:2", "mlx5_1:1"));
  ASSERT_FALSE(devices.interfaces.empty());
  EXPECT_TRUE(devices.interfaces.front().bridge);
  EXPECT_THAT(find_network_devices(sysfs.path() / "none").rdma_ports, IsEmpty());
}

}  // namespace
}  // namespace trireme
