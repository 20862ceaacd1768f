// SPDX-License-Identifier: Apache-2.0
// Section network: what keys demand of each other, and a file of network settings laid over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "unit/config/support.hpp"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kTcp = "network:\n  transport: tcp\n  interfaces: [eth0, 10.0.0.0/16]\n";

ConfigSource laid_over(const std::string& text, const std::string& network,
                       const std::vector<std::string>& overrides = {}) {
  return {.file = "a.yaml",
          .text = text,
          .network_file = "net.yaml",
          .network_text = network,
          .overrides = overrides};
}

std::string errors_in(const ConfigSource& source) {
  try {
    parse_config(source, test_parts());
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(Network, AFileLaidOverReplacesSingleKeysAndOverridesReplaceIts) {
  const std::string text = kValid + "network:\n  transport: auto\n  yield_when_idle: always\n";
  const ReadConfig read =
      parse_config(laid_over(text, kTcp, {"network.interfaces=[ib0]"}), test_parts());
  EXPECT_EQ(read.config.network.transport, "tcp");
  EXPECT_EQ(read.config.network.yield_when_idle, "always");
  EXPECT_THAT(read.config.network.interfaces, ElementsAre("ib0"));
  EXPECT_EQ(read.origin.at("network.transport"), "net.yaml:2:14");
  EXPECT_EQ(read.origin.at("network.yield_when_idle"), "a.yaml:13:20");
  EXPECT_EQ(read.origin.at("network.interfaces"), "command line");
}

TEST(Network, AFileLaidOverWorksWithoutASectionInTheFile) {
  EXPECT_EQ(parse_config(laid_over(kValid, kTcp), test_parts()).config.network.transport, "tcp");
}

TEST(Network, AFileLaidOverMayHoldNothingElse) {
  for (const std::string& text :
       {std::string("model:\n  name: mlp\n"), std::string(kTcp) + "run: {seed: 1}\n",
        std::string("network: tcp\n"), std::string("network:\n"), std::string()}) {
    EXPECT_THAT(errors_in(laid_over(kValid, text)),
                StartsWith("net.yaml:1:1: is no file of network settings; expected a section"))
        << text;
  }
}

TEST(Network, EachPresetIsReadAndChoosesATransport) {
  int presets = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(TRIREME_SOURCE_DIR "/configs/network")) {
    const std::string path = entry.path().string();
    const NetworkConfig network =
        parse_network({.network_file = path, .network_text = read_config_text(path)});
    EXPECT_NE(network.transport, "auto") << path;
    ++presets;
  }
  EXPECT_EQ(presets, 4);
}

TEST(Network, ErrorsNameTheFileTheyAreIn) {
  const std::string errors =
      errors_in(laid_over(with("train", "  epocs: 2\n"), "network:\n  transport: tpc\n"));
  EXPECT_THAT(errors, HasSubstr("a.yaml:9:3: train.epocs"));
  EXPECT_THAT(errors, HasSubstr("net.yaml:2:14: network.transport: 'tpc' is not one of"));
  EXPECT_THAT(errors, HasSubstr("did you mean 'tcp'"));
}

TEST(Network, ReadAloneItNeedsNoOtherSectionAndLooksAtNone) {
  EXPECT_EQ(parse_network({.network_file = "net.yaml", .network_text = kTcp}).transport, "tcp");
  EXPECT_EQ(parse_network({.overrides = {"network.transport=ucx"}}).transport, "ucx");
  EXPECT_EQ(
      parse_network({.file = "a.yaml", .text = "model: {nam: x}\n" + std::string(kTcp)}).transport,
      "tcp");
  EXPECT_EQ(parse_network({}).transport, "auto");
  EXPECT_THROW(parse_network({.overrides = {"network.transport=ib"}}), ConfigError);
  EXPECT_THROW(parse_network({.overrides = {"network.tcp_links=2"}}), ConfigError);
}

TEST(Network, AKeyThatCannotActIsAnErrorThatSaysWhatItIsFor) {
  EXPECT_THAT(errors_of(kValid, {"network.transport=tcp", "network.ucx_gid_index=3"}),
              StartsWith("command line: network.ucx_gid_index: has no effect with "
                         "network.transport: tcp; it is for ucx; delete it"));
}

TEST(Network, InterfacesThatNoUcxTransportUsesAreAnError) {
  const std::vector<std::string> ucx{"network.transport=ucx", "network.interfaces=[eth0]"};
  const auto with_tls = [&](const std::string& tls) {
    std::vector<std::string> overrides = ucx;
    overrides.push_back("network.ucx_tls=" + tls);
    return errors_of(kValid, overrides);
  };
  EXPECT_THAT(with_tls("[rc, self]"), HasSubstr("network.interfaces: has no effect"));
  for (const char* tls : {"[]", "[all]", "[tcp, self]"}) EXPECT_EQ(with_tls(tls), "") << tls;
}

TEST(Network, ASizeBelowTheLibrarysHeaderIsRefused) {
  const std::vector<std::string> ucx{"network.transport=ucx", "network.rendezvous_bytes=1023"};
  EXPECT_THAT(errors_of(kValid, ucx), HasSubstr("1023 is out of range; expected 0 or at least"));
  EXPECT_EQ(errors_of(kValid, {"network.transport=tcp", "network.rendezvous_bytes=1024"}), "");
}

TEST(Network, ANameThatWouldBeTwoIsRefused) {
  EXPECT_THAT(errors_of(kValid, {"network.interfaces=[\"eth0,eth1\"]"}),
              HasSubstr("network.interfaces: 'eth0,eth1' is no name; expected a list"));
  EXPECT_THAT(errors_of(kValid, {"network.transport=ucx", "network.ucx_devices=[\"\"]"}),
              HasSubstr("network.ucx_devices: '' is no name"));
}

}  // namespace
}  // namespace trireme
