// SPDX-License-Identifier: Apache-2.0
#include "config/overrides.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "unit/config/support.hpp"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

const std::string kGroups = kValid.substr(0, kValid.find("train:")) +
                            "  groups:\n    - match: a\n      lr: 1\n    - match: b\n" +
                            kValid.substr(kValid.find("train:"));

TEST(Overrides, ReplaceAndAddValuesAndTheLastOneWins) {
  const Config config =
      read(kValid, {"optimizer.lr=0.5", "log.every_steps=7", "optimizer.lr=0.25"}).config;
  EXPECT_EQ(config.optimizer.lr, 0.25);
  EXPECT_EQ(config.log.every_steps, 7);
}

TEST(Overrides, TakeYamlValues) {
  const Config config = read(kValid, {"data.mean=[0.5, 0.25]", "data.path=\"a: b=c\"",
                                      "data.shuffle=false", "data.std=[]"})
                            .config;
  EXPECT_THAT(config.data.mean, ElementsAre(0.5, 0.25));
  EXPECT_THAT(config.data.std, IsEmpty());
  EXPECT_EQ(config.data.path, "a: b=c");
  EXPECT_FALSE(config.data.shuffle);
}

TEST(Overrides, SetOptionsOfTheChosenModel) {
  const Config config = read(kValid, {"model.name=convnet", "model.width=32"}).config;
  EXPECT_EQ(config.model.options.get<std::int64_t>("width"), 32);
}

TEST(Overrides, ReachIntoGroupsThatTheFileLists) {
  const Config config =
      read(kGroups, {"optimizer.groups.0.lr=2", "optimizer.groups.1.frozen=true"}).config;
  ASSERT_EQ(config.optimizer.groups.size(), 2u);
  EXPECT_EQ(config.optimizer.groups[0].lr, 2.0);
  EXPECT_TRUE(config.optimizer.groups[1].frozen);
  EXPECT_EQ(config.optimizer.groups[0].origin, "a.yaml:9:7");
}

TEST(Overrides, ReplaceTheListOfGroupsAsAWhole) {
  const Config config = read(kGroups, {"optimizer.groups=[{match: c}]"}).config;
  ASSERT_EQ(config.optimizer.groups.size(), 1u);
  EXPECT_EQ(config.optimizer.groups[0].match, "c");
  EXPECT_EQ(config.optimizer.groups[0].origin, "command line");
}

TEST(Overrides, GroupsThatAreNotThereAreErrors) {
  for (const char* index : {"2", "-1", "x", "99999999999999999999"}) {
    const std::string key = std::string("optimizer.groups.") + index + ".lr";
    EXPECT_THAT(errors_of(kGroups, {key + "=1"}),
                StartsWith("command line: " + key + ": no such group; the configuration lists 2"));
  }
  EXPECT_THAT(errors_of(kValid, {"optimizer.groups.0.lr=1"}), HasSubstr("lists 0"));
}

TEST(Overrides, WhatIsNoSettingIsRefused) {
  for (const char* text : {"", "optimizer.lr", "optimizer=1", "=1", ".=1", "optimizer.=1",
                           "a.b.c=1", "model.a.b.c=1", "data.mean.0=1"}) {
    EXPECT_THAT(errors_of(kValid, {text}),
                StartsWith("command line: '" + std::string(text) +
                           "' is no setting; expected section.key=value"));
  }
  EXPECT_THAT(errors_of(kValid, {"lr=1"}), HasSubstr("did you mean 'optimizer.lr'?"));
}

TEST(Overrides, UnknownSectionsAndBadYamlNameTheCommandLine) {
  EXPECT_EQ(errors_of(kValid, {"optimiser.lr=1"}),
            "command line: optimiser: unknown section; did you mean 'optimizer'?");
  EXPECT_THAT(errors_of(kValid, {"optimizer.lr=[1"}),
              StartsWith("command line: optimizer.lr: a list or mapping as a key"));
  EXPECT_THAT(errors_of(kValid, {"data.path=*x"}),
              HasSubstr("put a text that starts with '*' into quotes"));
  EXPECT_THAT(errors_of(kValid, {"data.path=\"a"}), StartsWith("command line: data.path: "));
  EXPECT_THAT(errors_of(kValid, {"optimizer.lr=&a 1"}),
              StartsWith("command line: optimizer.lr: an anchor"));
  EXPECT_THAT(errors_of(kValid, {"data.path=\xff"}),
              StartsWith("command line: data.path: not UTF-8"));
}

}  // namespace
}  // namespace trireme
