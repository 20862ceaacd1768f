// SPDX-License-Identifier: Apache-2.0
#include "app/network_variables.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "app/network.hpp"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

NetworkDevices host(std::vector<std::string> rdma_ports = {}) {
  return {.interfaces = {{.name = "lo", .addresses = {"127.0.0.1/8"}, .loopback = true},
                         {.name = "eth0", .addresses = {"10.0.3.7/24"}},
                         {.name = "eth1", .addresses = {"10.0.4.7/24"}}},
          .rdma_ports = std::move(rdma_ports)};
}

std::string variables(const NetworkConfig& network) {
  return describe(network_variables(network, host()));
}

TEST(NetworkVariables, DefaultsLeaveOpenMpiAlone) { EXPECT_EQ(variables({}), ""); }

TEST(NetworkVariables, OfTcp) {
  NetworkConfig network;
  network.transport = "tcp";
  EXPECT_EQ(variables(network), "OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,vader,self");
  network.interfaces = {"10.0.4.0/22", "eth0"};
  network.rendezvous_bytes = 4096;
  network.yield_when_idle = "always";
  network.tcp_links = 2;
  network.tcp_send_buffer = 1000;
  network.tcp_receive_buffer = 2000;
  EXPECT_EQ(variables(network),
            "OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,vader,self OMPI_MCA_btl_tcp_if_include=eth1,eth0 "
            "OMPI_MCA_btl_tcp_eager_limit=4096 OMPI_MCA_mpi_yield_when_idle=1 "
            "OMPI_MCA_btl_tcp_links=2 OMPI_MCA_btl_tcp_sndbuf=1000 OMPI_MCA_btl_tcp_rcvbuf=2000");
}

TEST(NetworkVariables, OfUcx) {
  NetworkConfig network;
  network.transport = "ucx";
  const std::string chosen =
      "OMPI_MCA_pml=ucx OMPI_MCA_pml_ucx_tls=any OMPI_MCA_pml_ucx_devices=any";
  EXPECT_EQ(variables(network), chosen);
  network.interfaces = {"10.0.3.0/24"};
  network.ucx_devices = {"mlx5_0:1"};
  network.ucx_tls = {"rc", "tcp", "self"};
  network.rendezvous_bytes = 4096;
  network.yield_when_idle = "never";
  network.ucx_rndv_scheme = "get_zcopy";
  network.ucx_gid_index = 0;
  network.ucx_service_level = 3;
  EXPECT_EQ(variables(network),
            chosen +
                " UCX_NET_DEVICES=eth0,mlx5_0:1 UCX_TLS=rc,tcp,self UCX_RNDV_THRESH=4096 "
                "OMPI_MCA_mpi_yield_when_idle=0 UCX_RNDV_SCHEME=get_zcopy UCX_IB_GID_INDEX=0 "
                "UCX_IB_SL=3");
}

TEST(NetworkVariables, InterfacesHoldForTcpUnderWhateverIsChosen) {
  NetworkConfig network;
  network.interfaces = {"eth1"};
  EXPECT_EQ(variables(network), "OMPI_MCA_btl_tcp_if_include=eth1");
}

std::string problems(const NetworkConfig& network, const NetworkDevices& devices,
                     bool alone = true) {
  std::string text;
  for (const std::string& problem :
       network_problems(network, devices, {.name = "node7", .alone = alone})) {
    text += problem + "\n";
  }
  return text;
}

TEST(NetworkProblems, AnInterfaceThatIsNotThereIsNamedWithThoseThatAre) {
  NetworkConfig network;
  network.interfaces = {"eth9", "eth0", "10.9.0.0/16"};
  EXPECT_THAT(
      problems(network, host()),
      AllOf(HasSubstr(
                "network.interfaces: host node7 has no interface 'eth9' with an IPv4 "
                "address; expected one of eth0 (10.0.3.7/24), eth1 (10.0.4.7/24), or a network"),
            HasSubstr("no interface '10.9.0.0/16'"), Not(HasSubstr("'eth0'"))));
}

TEST(NetworkProblems, LoopbackAloneReachesNoOtherHost) {
  NetworkConfig network;
  network.interfaces = {"127.0.0.0/8"};
  for (const char* transport : {"auto", "tcp", "ucx"}) {
    network.transport = transport;
    EXPECT_EQ(problems(network, host()), "");
    EXPECT_THAT(
        problems(network, host(), false),
        AllOf(HasSubstr("network.interfaces: host node7 is left with its loopback interface, "
                        "[127.0.0.0/8]"),
              HasSubstr("expected one of eth0 (10.0.3.7/24)"), Not(HasSubstr("of lo"))));
  }
  network.ucx_devices = {"mlx5_0:1"};
  EXPECT_EQ(problems(network, host({"mlx5_0:1"}), false), "");
  network.ucx_devices.clear();
  network.interfaces.emplace_back("eth0");
  EXPECT_EQ(problems(network, host(), false), "");
}

TEST(NetworkProblems, AHostWithLoopbackAloneHasNothingToOffer) {
  NetworkConfig network;
  network.interfaces = {"lo"};
  NetworkDevices devices = host();
  devices.interfaces.resize(1);
  EXPECT_THAT(problems(network, devices, false),
              HasSubstr("which that does not reach; it has none that leads to other hosts"));
}

TEST(NetworkProblems, WithoutARdmaPortWhatNeedsOneIsRefused) {
  NetworkConfig network;
  network.transport = "ucx";
  network.ucx_devices = {"mlx5_0:1"};
  network.ucx_tls = {"rc_x", "tcp", "self"};
  network.ucx_gid_index = 1;
  network.ucx_service_level = 1;
  const std::string text = problems(network, host());
  EXPECT_EQ(std::ranges::count(text, '\n'), 4);
  for (const char* part :
       {"ucx_devices: host node7 has no port 'mlx5_0:1'", "cannot use 'rc_x'",
        "without one, take configs/network/tcp.yaml", "ucx_gid_index: ", "ucx_service_level: "}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_EQ(problems(network, host({"mlx5_0:1"})), "");
}

TEST(NetworkProblems, AnotherPortThanTheHostHasIsNamedWithThoseThatAre) {
  NetworkConfig network;
  network.transport = "ucx";
  network.ucx_devices = {"mlx5_1:1"};
  EXPECT_THAT(problems(network, host({"mlx5_0:1", "mlx5_0:2"})),
              HasSubstr("has no port 'mlx5_1:1'; expected one of mlx5_0:1, mlx5_0:2"));
}

class ApplyNetwork : public testing::Test {
 protected:
  void TearDown() override {
    for (const char* name : {"TRIREME_TEST_A", "TRIREME_TEST_B", "OMPI_MCA_btl_tcp_if_include",
                             "OMPI_MCA_btl_tcp_if_exclude"}) {
      unsetenv(name);
    }
  }
};

TEST_F(ApplyNetwork, SetsWhatIsFreeAndKeepsWhatTheEnvironmentHas) {
  setenv("TRIREME_TEST_B", "theirs", 1);
  const std::vector<NetworkVariable> wanted{{"a", "TRIREME_TEST_A", "ours"},
                                            {"b", "TRIREME_TEST_B", "ours"}};
  const AppliedNetwork applied = apply_network(wanted);
  EXPECT_STREQ(std::getenv("TRIREME_TEST_A"), "ours");
  EXPECT_STREQ(std::getenv("TRIREME_TEST_B"), "theirs");
  EXPECT_THAT(applied.set, ElementsAre(wanted[0]));
  EXPECT_THAT(applied.kept, ElementsAre(NetworkVariable{"b", "TRIREME_TEST_B", "theirs"}));
}

TEST_F(ApplyNetwork, AnEqualValueIsNotWorthAWord) {
  setenv("TRIREME_TEST_A", "same", 1);
  const AppliedNetwork applied = apply_network({{"a", "TRIREME_TEST_A", "same"}});
  EXPECT_THAT(applied.set, IsEmpty());
  EXPECT_THAT(applied.kept, IsEmpty());
}

TEST_F(ApplyNetwork, AListOfExcludedInterfacesWinsOverOneOfIncludedOnes) {
  setenv("OMPI_MCA_btl_tcp_if_exclude", "lo", 1);
  const AppliedNetwork applied =
      apply_network({{"interfaces", "OMPI_MCA_btl_tcp_if_include", "eth0"}});
  EXPECT_EQ(std::getenv("OMPI_MCA_btl_tcp_if_include"), nullptr);
  EXPECT_THAT(applied.kept,
              ElementsAre(NetworkVariable{"interfaces", "OMPI_MCA_btl_tcp_if_exclude", "lo"}));
}

class DescribeNetwork : public testing::Test {
 protected:
  void SetUp() override { setenv("OMPI_COMM_WORLD_SIZE", "2", 1); }
  void TearDown() override {
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("OMPI_MCA_oob_tcp_if_include");
  }
};

TEST_F(DescribeNetwork, SaysNothingOfDefaultsOnOneNode) {
  EXPECT_EQ(describe_network({}, "ob1 (self, tcp)", 1), "");
  EXPECT_EQ(describe_network({}, "ob1 (self, tcp)", 2),
            "network: MPI's messages travel over ob1 (self, tcp)\n");
}

TEST_F(DescribeNetwork, NamesTheArgumentThatOnlyMpirunCanTakeUnlessItHasIt) {
  NetworkSetup setup;
  setup.config.interfaces = {"eth0", "eth1"};
  const auto says = testing::HasSubstr("mpirun --mca oob_tcp_if_include eth0,eth1\n");
  EXPECT_THAT(describe_network(setup, "ob1", 2), says);
  setenv("OMPI_MCA_oob_tcp_if_include", "eth0", 1);
  EXPECT_THAT(describe_network(setup, "ob1", 2), testing::Not(says));
}

TEST(WarningOfBridges, IsForBridgesThatTheSettingsDoNotExclude) {
  NetworkDevices devices = host();
  EXPECT_EQ(warning_of_bridges({}, devices, "a"), "");
  devices.interfaces.push_back({.name = "docker0", .addresses = {"172.17.0.1/16"}, .bridge = true});
  EXPECT_THAT(warning_of_bridges({}, devices, "a"),
              AllOf(HasSubstr("host a has a bridge of its own: docker0 (172.17.0.1/16)"),
                    HasSubstr("network.interfaces")));
  NetworkConfig network;
  network.interfaces = {"eth0"};
  EXPECT_EQ(warning_of_bridges(network, devices, "a"), "");
}

}  // namespace
}  // namespace trireme
