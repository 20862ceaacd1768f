// SPDX-License-Identifier: Apache-2.0
#include "config/read.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "unit/config/support.hpp"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

using Integers = std::vector<std::int64_t>;

TEST(ParseConfig, ReadsValuesAndKeepsDefaults) {
  const Config config = read(with("data", "  mean: [0.5, 1, 1.0e-2]\n  shuffle: false\n")).config;
  EXPECT_EQ(config.model.name, "mlp");
  EXPECT_EQ(config.optimizer.lr, 0.1);
  EXPECT_EQ(config.train.global_batch, 32);
  EXPECT_THAT(config.data.mean, ElementsAre(0.5, 1.0, 0.01));
  EXPECT_FALSE(config.data.shuffle);
  EXPECT_EQ(config.data.workers, DataConfig{}.workers);
}

TEST(ParseConfig, NamesTheRunAfterItsFileAndPutsItIntoRuns) {
  ConfigSource source{.file = "configs/my-run.yaml", .text = kValid, .overrides = {}};
  EXPECT_EQ(parse_config(source, test_parts()).config.run.name, "my-run");
  EXPECT_EQ(parse_config(source, test_parts()).config.run.dir, "runs/my-run");
  source.overrides = {"run.name=b"};
  EXPECT_EQ(parse_config(source, test_parts()).config.run.dir, "runs/b");
  source.overrides = {"run.dir=/tmp/x"};
  EXPECT_EQ(parse_config(source, test_parts()).config.run.dir, "/tmp/x");
}

TEST(ParseConfig, GivesEveryDeclaredOptionOfTheChosenPartAValue) {
  const Config config = read(with("model", "  hidden: [8]\n")).config;
  EXPECT_EQ(config.model.options.get<Integers>("hidden"), Integers{8});
  EXPECT_EQ(config.model.options.get<double>("dropout"), 0.0);
  EXPECT_TRUE(config.model.options.get<bool>("bias"));
  EXPECT_EQ(config.data.options.get<std::int64_t>("samples"), 100);
  EXPECT_EQ(config.loss.options.get<double>("smoothing"), 0.0);
}

TEST(ParseConfig, SaysWhereEveryValueComesFrom) {
  const auto origin =
      read(with("optimizer", "  groups: [{match: a, lr: 1}]\n"), {"train.epochs=3"}).origin;
  EXPECT_EQ(origin.at("optimizer.lr"), "a.yaml:8:7");
  EXPECT_EQ(origin.at("optimizer.groups.0.lr"), "a.yaml:6:27");
  EXPECT_EQ(origin.at("train.epochs"), "command line");
  EXPECT_EQ(origin.at("train.max_steps"), "default");
  EXPECT_EQ(origin.at("model.hidden"), "default");
}

TEST(ParseConfig, AnotherRuleInAGroupMakesItsKeysUseful) {
  EXPECT_EQ(errors_of(with("optimizer", "  groups: [{match: a, name: muon}]\n"),
                      {"optimizer.name=adam", "optimizer.muon_steps=3"}),
            "");
}

TEST(ParseConfig, MaxStepsAloneIsALength) {
  EXPECT_EQ(errors_of(kValid, {"train.epochs=0", "train.max_steps=10"}), "");
}

TEST(ParseConfig, RunNamesArePlainFileNames) {
  for (const char* name : {"a", "A-1_b.c", "0"}) {
    EXPECT_EQ(errors_of(kValid, {std::string("run.name=") + name}), "") << name;
  }
  for (const char* name :
       {"\"\"", "../x", "-rf", ".hidden", "a/b", "a b", "\"a\\\\b\"", "\u00e9"}) {
    EXPECT_THAT(errors_of(kValid, {std::string("run.name=") + name}),
                StartsWith("command line: run.name: "))
        << name;
  }
  EXPECT_THAT(errors_of(kValid, {"run.name=" + std::string(129, 'a')}), HasSubstr("at most 128"));
  try {
    parse_config({.file = "my run.yaml", .text = kValid, .overrides = {}}, test_parts());
    FAIL() << "a name with a space was taken from the file";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("run.name: 'my run' is not a plain file name"));
    EXPECT_THAT(error.what(), HasSubstr("set run.name"));
  }
}

TEST(ParseConfig, AFalseValueCausesNoFollowingErrors) {
  EXPECT_EQ(errors_of(kValid, {"train.epochs=x"}),
            "command line: train.epochs: 'x' is not a number; expected a number in [0, 1000000]");
  EXPECT_EQ(errors_of(kValid, {"train.global_batch=x", "train.micro_batch=8"}).find('\n'),
            std::string::npos);
}

TEST(ParseConfig, AnOptionThatHidesAKeyIsADefect) {
  DeclaredOptions parts = test_parts();
  parts.models["mlp"] = {{"init", true, "Hides model.init."}};
  const ConfigSource source{.file = "a.yaml", .text = kValid, .overrides = {"model.init=normal"}};
  EXPECT_THROW(parse_config(source, parts), InternalError);
}

}  // namespace
}  // namespace trireme
