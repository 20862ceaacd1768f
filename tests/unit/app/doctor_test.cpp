// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "app/bench_comm.hpp"
#include "app/doctor_checks.hpp"
#include "app/doctor_files.hpp"
#include "comm/local.hpp"
#include "comm/threads.hpp"
#include "support/temporary_directory.hpp"

namespace trireme::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(Findings, OfAllRanksAreFoldedAndThoseOfOneCheckStandTogether) {
  run_as_threads(4, [](Communicator& world) {
    const bool odd = world.rank() == 2;
    const std::vector<Finding> all = gather_findings(
        world, {{.check = "a", .text = odd ? "x" : "y"}, {.check = "b", .text = "z"}});
    ASSERT_EQ(all.size(), 3u);
    EXPECT_EQ(all[0].ranks, (std::vector<int>{0, 1, 3}));
    EXPECT_EQ(all[1].check, "a");
    EXPECT_EQ(all[1].ranks, (std::vector<int>{2}));
    EXPECT_EQ(all[2].ranks, (std::vector<int>{0, 1, 2, 3}));
    EXPECT_EQ(to_text(all[0], 4), "ok    a               y (ranks 0-1, 3)\n");
    EXPECT_EQ(to_text(all[1], 4), "ok    a               x (rank 2)\n");
    EXPECT_EQ(to_text(all[2], 4), "ok    b               z\n");
  });
}

TEST(Findings, WhatRanksMustHaveAlikeFailsWhereTheyDiffer) {
  std::vector<Finding> findings{{.check = "libtorch", .text = "2.10"},
                                {.check = "libtorch", .text = "2.11"},
                                {.check = "hdf5", .text = "1.10"},
                                {.check = "trireme", .text = "0.1"}};
  require_alike(findings, {"libtorch", "trireme"});
  EXPECT_EQ(findings[0].verdict, Verdict::kFail);
  EXPECT_EQ(findings[1].verdict, Verdict::kFail);
  EXPECT_THAT(findings[1].hint, HasSubstr("ranks differ"));
  EXPECT_EQ(findings[2].verdict, Verdict::kOk);
  EXPECT_EQ(findings[3].verdict, Verdict::kOk);
}

TEST(Findings, AreJsonObjectsALine) {
  const Finding finding{
      .check = "a", .verdict = Verdict::kWarn, .text = "\"x\"", .hint = "do", .ranks = {1, 2}};
  EXPECT_EQ(to_json(finding),
            R"({"check":"a","verdict":"warn","text":"\"x\"","hint":"do","ranks":[1,2]})"
            "\n");
}

TEST(Doctor, ASmallMemlockLimitMattersOnlyBesideRdma) {
  EXPECT_EQ(check_memlock(65536, false).verdict, Verdict::kOk);
  EXPECT_EQ(check_memlock(65536, true).verdict, Verdict::kWarn);
  EXPECT_THAT(check_memlock(65536, true).hint, HasSubstr("unlimited"));
  EXPECT_EQ(check_memlock(RLIM_INFINITY, true).verdict, Verdict::kOk);
}

// Verdict and text of one check.
std::string of(const std::vector<Finding>& findings, const std::string& check) {
  const auto found = std::ranges::find(findings, check, &Finding::check);
  return found == findings.end() ? "" : to_text(*found, 0);
}

TEST(Doctor, ABuildForCpusSaysSo) {
  const std::vector<Finding> findings = check_gpus({}, {.wanted = true});
  ASSERT_EQ(findings.size(), 5u);
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.verdict, Verdict::kOk);
    EXPECT_EQ(finding.text, "not in this build, which is for CPUs");
  }
}

TEST(Doctor, ABuildWithCudaNamesWhatItHasAndMisses) {
  const NcclLibrary nccl{.header = "2.28.9",
                         .running = "2.28.9",
                         .path = "/lib/libnccl.so",
                         .torch_path = "/lib/libnccl.so"};
  GpuNeeds needs{
      .cuda = "13.0", .nccl = nccl, .nccl_of_torch = "2.28.9", .ranks = 2, .wanted = false};
  const std::vector<Finding> fit =
      check_gpus({.driver = "13.1", .cudnn = "9.15.1", .names = {"A", "B"}}, needs);
  for (const Finding& finding : fit) {
    EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.check;
    EXPECT_THAT(finding.text, Not(HasSubstr("not in this build")));
  }
  EXPECT_THAT(of(fit, "gpu"), HasSubstr("A, B"));
  EXPECT_THAT(of(fit, "cuda"), HasSubstr("13.0"));
  EXPECT_THAT(of(fit, "cudnn"), HasSubstr("9.15.1"));
  EXPECT_THAT(of(fit, "nccl"), HasSubstr("2.28.9 (/lib/libnccl.so)"));

  EXPECT_THAT(of(check_gpus({}, needs), "gpu driver"), StartsWith("warn  gpu driver      none"));
  needs.wanted = true;
  EXPECT_THAT(of(check_gpus({}, needs), "gpu driver"), StartsWith("fail  gpu driver      none"));
  EXPECT_THAT(of(check_gpus({}, needs), "gpu"),
              StartsWith("fail  gpu             none is visible, for 2 ranks"));
  EXPECT_THAT(
      of(check_gpus({.driver = "12.9", .cudnn = {}, .names = {"A", "B"}}, needs), "gpu driver"),
      HasSubstr("fail  gpu driver      for CUDA up to 12.9, and this build is for 13.0"));
  needs.ranks = 3;
  EXPECT_THAT(of(check_gpus({.driver = "13.0", .cudnn = {}, .names = {"A", "B"}}, needs), "gpu"),
              StartsWith("fail"));
  EXPECT_THAT(of(check_gpus({.driver = "13.0", .cudnn = {}, .names = {"A"}}, needs), "gpu"),
              StartsWith("ok"))
      << "a launcher gave each rank its own";
  needs.nccl_of_torch = "2.27.0";
  EXPECT_THAT(of(check_gpus({}, needs), "nccl"), StartsWith("fail  nccl"));
}

TEST(Doctor, BarriersBoundHowFarTwoClocksDiffer) {
  // The other's clock is 5 s ahead. It enters late in the first barrier and leaves early in the
  // second.
  const ClockDifference difference =
      clock_difference({{.entered = 0, .left = 1.1}, {.entered = 2, .left = 3}},
                       {{.entered = 6, .left = 6.5}, {.entered = 7.1, .left = 7.2}});
  EXPECT_NEAR(difference.seconds, 5.05, 1e-9);
  EXPECT_NEAR(difference.uncertainty, 0.15, 1e-9);
}

TEST(Doctor, ClocksOfOneMachineAgree) {
  run_as_threads(3, [](Communicator& world) {
    const Finding finding = check_clocks(world);
    EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.text;
    EXPECT_THAT(finding.text, HasSubstr("largest difference to rank 0: "));
  });
}

std::vector<std::vector<NetworkInterface>> two_hosts(const std::string& docker_of_second) {
  const NetworkInterface lo{.name = "lo", .addresses = {"127.0.0.1/8"}, .loopback = true};
  const auto docker = [](const std::string& address) {
    return NetworkInterface{.name = "docker0", .addresses = {address}, .bridge = true};
  };
  return {{lo, {.name = "eth0", .addresses = {"10.0.0.1/24"}}, docker("172.17.0.1/16")},
          {lo, {.name = "eth0", .addresses = {"10.0.0.2/24"}}, docker(docker_of_second)}};
}

TEST(Doctor, AnAddressThatTwoHostsHaveIsAWarning) {
  const Nodes nodes{.node_of = {0, 1}, .ranks = {{0}, {1}}};
  const Finding same = check_addresses(two_hosts("172.17.0.1/16"), nodes, 1, {});
  EXPECT_EQ(same.verdict, Verdict::kWarn);
  EXPECT_THAT(same.text, HasSubstr("other hosts have the same docker0 (172.17.0.1/16) (a bridge)"));
  EXPECT_THAT(same.hint, HasSubstr("network.interfaces"));
  EXPECT_EQ(check_addresses(two_hosts("172.18.0.1/16"), nodes, 1, {}).verdict, Verdict::kOk);
  // What the settings leave aside does no harm.
  const auto chosen = [&](const std::string& word) {
    NetworkConfig network;
    network.interfaces = {word};
    return check_addresses(two_hosts("172.17.0.1/16"), nodes, 1, network).verdict;
  };
  EXPECT_EQ(chosen("10.0.0.0/8"), Verdict::kOk);
  EXPECT_EQ(chosen("docker0"), Verdict::kWarn);
}

TEST(Doctor, LoopbackAloneIsAWarning) {
  const Nodes nodes{.node_of = {0, 0}, .ranks = {{0, 1}}};
  NetworkConfig network;
  network.interfaces = {"lo"};
  const Finding alone = check_addresses(two_hosts("172.17.0.1/16"), nodes, 1, network);
  EXPECT_EQ(alone.verdict, Verdict::kWarn);
  EXPECT_THAT(alone.hint, HasSubstr("network.interfaces"));
  network.interfaces = {"lo", "eth0"};
  EXPECT_EQ(check_addresses(two_hosts("172.17.0.1/16"), nodes, 1, network).verdict, Verdict::kOk);
}

TEST(Doctor, RanksOfOneHostMayHaveTheSameAddresses) {
  const Nodes nodes{.node_of = {0, 0}, .ranks = {{0, 1}}};
  EXPECT_EQ(check_addresses(two_hosts("172.17.0.1/16"), nodes, 1, {}).verdict, Verdict::kOk);
}

TEST(Doctor, TriesTheFolderOfTheRunAndLeavesNothing) {
  const TemporaryDirectory folder;
  run_as_threads(2, [&](Communicator& world) {
    const std::vector<Finding> found = check_run_directory(world, folder.path() / "runs" / "new");
    for (const Finding& finding : found) EXPECT_NE(finding.verdict, Verdict::kFail) << finding.text;
    ASSERT_EQ(found.size(), world.rank() == 0 ? 2u : 1u);
    if (world.rank() == 0) {
      EXPECT_THAT(found[0].text, StartsWith(folder.path().string() + ": rename and flock work"));
    }
    EXPECT_EQ(found.back().text, "rank 0's files are seen");
  });
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Doctor, AFileSystemWithoutWritingFails) {
  const auto world = make_local_communicator();
  const std::vector<Finding> found = check_run_directory(*world, "/proc/self");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].verdict, Verdict::kFail);
  EXPECT_THAT(found[0].hint, HasSubstr("run.dir"));
}

TEST(Doctor, SumsOverAllRanksAreChecked) {
  run_as_threads(3, [](Communicator& world) {
    const Finding finding = check_all_reduce(world);
    EXPECT_EQ(finding.verdict, Verdict::kOk);
    EXPECT_EQ(finding.text, "262144 sums over 3 ranks are right");
  });
}

TEST(Nodes, AreNumberedByTheirLowestRank) {
  run_as_threads(3, [](Communicator& world) {
    const Nodes nodes = find_nodes(world);
    EXPECT_EQ(nodes.count(), 1);
    EXPECT_EQ(nodes.node_of, (std::vector<int>{0, 0, 0}));
  });
  const Nodes two{.node_of = {0, 1, 0, 1}, .ranks = {{0, 2}, {1, 3}}};
  EXPECT_EQ(two.local_rank(2), 1);
  EXPECT_EQ(two.local_rank(1), 0);
}

TEST(BenchComm, BandwidthsAreThoseOfNcclTestsForWhatHasALink) {
  const BenchRow row{.size_bytes = 8000, .min_seconds = 1, .median_seconds = 2, .limit_seconds = 1};
  EXPECT_DOUBLE_EQ(algorithm_bandwidth(row), 4000);
  const Nodes one{.node_of = {0, 0, 0, 0}, .ranks = {{0, 1, 2, 3}}};
  EXPECT_DOUBLE_EQ(bus_factor(one), 1.5);
  EXPECT_DOUBLE_EQ(bus_bandwidth(row, one), 6000);
  EXPECT_DOUBLE_EQ(limit_bandwidth(row, one), 8000);
  // Between nodes it is the nodes that have links.
  const Nodes two{.node_of = {0, 0, 1, 1}, .ranks = {{0, 1}, {2, 3}}};
  EXPECT_DOUBLE_EQ(bus_factor(two), 1);
  EXPECT_DOUBLE_EQ(bus_bandwidth(row, two), 4000);
  const Nodes three{.node_of = {0, 0, 1, 2}, .ranks = {{0, 1}, {2}, {3}}};
  EXPECT_DOUBLE_EQ(bus_bandwidth(row, three), 4000 * 4.0 / 3);
  EXPECT_DOUBLE_EQ(limit_bandwidth(row, three), 8000 * 4.0 / 3);
}

TEST(BenchComm, NamesOverridesThatItDoesNotUse) {
  EXPECT_EQ(warning_of_unused({}), "");
  EXPECT_EQ(warning_of_unused({"network.tcp_links=2"}), "");
  EXPECT_THAT(warning_of_unused({"parallel.compression=fp16", "network.tcp_links=2"}),
              testing::HasSubstr("alone: parallel.compression has no effect"));
  EXPECT_THAT(warning_of_unused({"run.timeout=3", "train.epochs=1"}),
              testing::HasSubstr("alone: run.timeout, train.epochs have no effect"));
}

TEST(BenchComm, MeasuresOnOneNodeAndOverSeveral) {
  run_as_threads(4, [](Communicator& world) {
    for (const Nodes& nodes : {Nodes{.node_of = {0, 0, 0, 0}, .ranks = {{0, 1, 2, 3}}},
                               Nodes{.node_of = {0, 0, 1, 2}, .ranks = {{0, 1}, {2}, {3}}}}) {
      const BenchRow row = bench_all_reduce(world, nodes, 4096);
      EXPECT_EQ(row.size_bytes, 4096u);
      EXPECT_GT(row.min_seconds, 0);
      EXPECT_GE(row.median_seconds, row.min_seconds);
      EXPECT_GT(row.limit_seconds, 0);
    }
  });
}

}  // namespace
}  // namespace trireme::test
