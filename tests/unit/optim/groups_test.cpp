// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "optim/optimizer.hpp"
#include "optim/patterns.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<std::string> kNames{"whiten.weight", "whiten.bias", "groups.0.conv1.weight",
                                      "head.weight"};
const std::vector<std::vector<std::int64_t>> kShapes{
    {24, 3, 2, 2}, {24}, {64, 24, 3, 3}, {10, 256}};

OptimizerConfig base() {
  OptimizerConfig config;
  config.name = "sgd";
  config.lr = 0.1;
  config.momentum = 0.85;
  config.weight_decay = 0.01;
  return config;
}

GroupConfig group(const char* match) {
  GroupConfig config;
  config.match = match;
  return config;
}

std::string message_of(const OptimizerConfig& config) {
  try {
    resolve_groups(config, kNames, kShapes);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no ConfigError";
}

TEST(Groups, WithoutAnyThereIsOneForAll) {
  const ResolvedGroups resolved = resolve_groups(base(), kNames, kShapes);
  ASSERT_EQ(resolved.groups.size(), 1);
  EXPECT_EQ(resolved.groups[0].match, "*");
  EXPECT_EQ(resolved.groups[0].settings.lr, 0.1);
  EXPECT_EQ(resolved.groups[0].duration, 0);
  EXPECT_THAT(resolved.group_of, ElementsAre(0, 0, 0, 0));
}

TEST(Groups, TheFirstMatchWinsAndTheRestComesLast) {
  OptimizerConfig config = base();
  config.groups = {group("whiten.bias"), group("whiten.*"), group("groups.?.conv?.weight")};
  const ResolvedGroups resolved = resolve_groups(config, kNames, kShapes);
  ASSERT_EQ(resolved.groups.size(), 4);
  EXPECT_THAT(resolved.group_of, ElementsAre(1, 0, 2, 3));
  EXPECT_EQ(resolved.groups[3].match, "*");
}

TEST(Groups, OwnValuesReplaceTheOptimizersAndTheOthersStay) {
  OptimizerConfig config = base();
  config.nesterov = true;
  GroupConfig own = group("groups.*");
  own.name = "muon";
  own.lr = 0.24;
  own.weight_decay = 0;
  own.momentum = 0.6;
  own.duration = 3;
  GroupConfig frozen = group("whiten.weight");
  frozen.frozen = true;
  config.groups = {own, frozen};
  const ResolvedGroups resolved = resolve_groups(config, kNames, kShapes);
  const ParameterGroup& first = resolved.groups[0];
  EXPECT_EQ(first.settings.name, "muon");
  EXPECT_EQ(first.settings.lr, 0.24);
  EXPECT_EQ(first.settings.weight_decay, 0);
  EXPECT_EQ(first.settings.momentum, 0.6);
  EXPECT_EQ(first.duration, 3);
  EXPECT_FALSE(first.frozen);
  EXPECT_TRUE(first.settings.groups.empty());
  EXPECT_TRUE(resolved.groups[1].frozen);
  EXPECT_EQ(resolved.groups[1].settings.name, "sgd");
  EXPECT_EQ(resolved.groups[1].settings.momentum, 0.85);
  EXPECT_TRUE(resolved.groups[1].settings.nesterov);
}

TEST(Groups, APatternThatMatchesNothingIsAnErrorThatNamesTheNearest) {
  OptimizerConfig config = base();
  config.groups = {group("haed.weight"), group("whten.*")};
  config.groups[0].origin = "a.yaml:12:7";
  EXPECT_THAT(message_of(config),
              AllOf(HasSubstr("a.yaml:12:7: "), HasSubstr("'haed.weight'"),
                    HasSubstr("'head.weight'"), HasSubstr("'whten.*'"), HasSubstr("'whiten.*'")));
}

TEST(Groups, WhereNothingIsNearTheParametersAreListed) {
  OptimizerConfig config = base();
  config.groups = {group("transformer.h.11.attn.c_proj")};
  EXPECT_THAT(message_of(config),
              AllOf(HasSubstr("its parameters are 'whiten.weight'"), HasSubstr("'head.weight'")));
}

TEST(Groups, APatternBehindAWiderOneIsAnError) {
  OptimizerConfig config = base();
  config.groups = {group("*"), group("head.*")};
  EXPECT_THAT(message_of(config), HasSubstr("match 'head.*' has no effect"));
}

TEST(Groups, AMatrixRuleRefusesVectorsThatItWouldTrain) {
  OptimizerConfig config = base();
  config.name = "muon";
  EXPECT_THAT(message_of(config),
              AllOf(HasSubstr("'whiten.bias' has shape (24)"), Not(HasSubstr("head.weight"))));
  config.groups = {group("*.bias")};
  config.groups[0].frozen = true;
  EXPECT_EQ(message_of(config), "no ConfigError");
  config.groups[0].frozen = false;
  config.groups[0].name = "adamw";
  EXPECT_EQ(message_of(config), "no ConfigError");
}

TEST(Patterns, MatchAllNamesThatAnyOfThemMatches) {
  EXPECT_THAT(matched_by({"whiten.*", "*.conv?.weight"}, kNames, "model.freeze"),
              ElementsAre(true, true, true, false));
  EXPECT_THAT(matched_by({}, kNames, "model.freeze"), ElementsAre(false, false, false, false));
}

TEST(Patterns, ThatMatchNothingAreNamedTogetherWithSuggestions) {
  try {
    matched_by({"whitten.*", "head.weight", "nothing like it"}, kNames, "model.freeze");
    ADD_FAILURE() << "no ConfigError";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("model.freeze: 'whitten.*' matches no parameter of the model; did "
                                "you mean 'whiten.*'"),
                      HasSubstr("\nmodel.freeze: 'nothing like it' matches no parameter"),
                      HasSubstr("its parameters are 'whiten.weight'"),
                      Not(HasSubstr("'head.weight' matches"))));
  }
}

// A rule for matrices has nothing to update in a frozen vector.
TEST(Groups, AMatrixRuleMayHaveFrozenVectors) {
  OptimizerConfig config = base();
  config.name = "muon";
  EXPECT_THROW(resolve_groups(config, kNames, kShapes), ConfigError);
  EXPECT_THROW(resolve_groups(config, kNames, kShapes, {true, false, false, true}), ConfigError);
  EXPECT_NO_THROW(resolve_groups(config, kNames, kShapes, {false, true, false, false}));
}

}  // namespace
}  // namespace trireme
