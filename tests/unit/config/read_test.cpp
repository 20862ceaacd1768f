// SPDX-License-Identifier: Apache-2.0
#include "config/read.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "unit/config/support.hpp"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using Integers = std::vector<std::int64_t>;

// kValid with more lines in a section, or behind the sections: "top".
std::string with(const std::string& section, const std::string& lines) {
  std::string text = kValid;
  if (section == "top") return text + lines;
  const auto start = text.find(section + ":\n");
  if (start == std::string::npos) return text + section + ":\n" + lines;
  return text.insert(start + section.size() + 2, lines);
}

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

// kValid with `lines` put into `section` (see with()), and overrides.
struct BadConfig {
  const char* name;
  const char* section;
  const char* lines;
  std::array<const char*, 3> overrides;
  const char* message;  // start

  std::string errors() const {
    std::vector<std::string> set;
    for (const char* text : overrides) {
      if (text != nullptr) set.emplace_back(text);
    }
    return errors_of(section[0] == '\0' ? kValid : with(section, lines), set);
  }
};

class BadConfigs : public testing::TestWithParam<BadConfig> {};

TEST_P(BadConfigs, AreRefusedWithOneMessage) {
  const std::string errors = GetParam().errors();
  EXPECT_THAT(errors, StartsWith(GetParam().message));
  EXPECT_THAT(errors, Not(HasSubstr("\n")));
}

std::string name_of(const testing::TestParamInfo<BadConfig>& param) { return param.param.name; }

constexpr BadConfig kKeys[] = {
    {"Misspelt",
     "optimizer",
     "  momentun: 0\n",
     {},
     "a.yaml:6:3: optimizer.momentun: unknown key; did you mean 'momentum'?"},
    {"Case24",
     "optimizer",
     "  lerning_rate: 1\n",
     {},
     "a.yaml:6:3: optimizer.lerning_rate: unknown key; did you mean 'lr'?"},
    {"OfAnotherSection",
     "train",
     "  lr: 1\n",
     {},
     "a.yaml:9:3: train.lr: unknown key; did you mean 'optimizer.lr'?"},
    {"OfNoSection",
     "top",
     "lr: 1\n",
     {},
     "a.yaml:11:1: lr: unknown section; did you mean 'optimizer.lr'?"},
    {"Nonsense",
     "log",
     "  banana: 1\n",
     {},
     "a.yaml:12:3: log.banana: unknown key; expected one of every_steps, "
     "console_seconds"},
    {"OfAnotherModel",
     "model",
     "  width: 8\n",
     {},
     "a.yaml:2:3: model.width: unknown key; it is an option of model convnet, but "
     "model.name is 'mlp'"},
    {"MisspeltOption",
     "model",
     "  hiden: [8]\n",
     {},
     "a.yaml:2:3: model.hiden: unknown key; did you mean 'hidden'?"},
    {"OptionRange",
     "model",
     "  hidden: [8, 0]\n",
     {},
     "a.yaml:2:15: model.hidden.1: 0 is out of range; expected a list of integers "
     "such as [1, 2], each in [1, 4096]"},
    {"UnknownModelWithOptionsOfOthers",
     "model",
     "  width: 8\n",
     {"model.name=mlpp"},
     "command line: model.name: no model is called 'mlpp'; expected one of convnet, "
     "mlp; did you mean 'mlp'?"},
    {"UnknownDataSet",
     "",
     "",
     {"data.name=cifar"},
     "command line: data.name: no data set is called 'cifar'"},
    {"UnknownLoss",
     "",
     "",
     {"loss.name=mse2"},
     "command line: loss.name: no loss is called 'mse2'"},
    {"UnknownMetric",
     "",
     "",
     {"metric.name=acuracy"},
     "command line: metric.name: no metric is called 'acuracy'"},
    {"UnknownGroupKey",
     "optimizer",
     "  groups: [{match: a, rate: 1}]\n",
     {},
     "a.yaml:6:23: optimizer.groups.0.rate: unknown key; expected one of match"},
    {"GroupsAreNoList",
     "optimizer",
     "  groups: {match: a}\n",
     {},
     "a.yaml:6:11: optimizer.groups: expected a list of groups"},
    {"GroupIsText",
     "optimizer",
     "  groups: [a]\n",
     {},
     "a.yaml:6:12: optimizer.groups.0: expected a group"},
    {"SectionIsText", "top", "log: 5\n", {}, "a.yaml:11:6: log: expected a section"},
    {"SectionIsEmpty", "top", "log:\n", {}, "a.yaml:11:1: log: the section is empty"}};
INSTANTIATE_TEST_SUITE_P(Keys, BadConfigs, testing::ValuesIn(kKeys), name_of);

constexpr BadConfig kValues[] = {
    {"LeadingZero",
     "data",
     "  workers: 010\n",
     {},
     "a.yaml:4:12: data.workers: a leading zero in '010'"},
    {"LeadingZeroNegative",
     "",
     "",
     {"run.seed=-01"},
     "command line: run.seed: a leading zero in '-01'"},
    {"Octal",
     "",
     "",
     {"data.workers=0o10"},
     "command line: data.workers: '0o10' is not an integer in plain digits"},
    {"Hexadecimal",
     "",
     "",
     {"data.workers=0x10"},
     "command line: data.workers: '0x10' is not an integer"},
    {"HexadecimalNumber",
     "",
     "",
     {"optimizer.lr=0x1p3"},
     "command line: optimizer.lr: '0x1p3' is not a number"},
    {"NotANumber",
     "",
     "",
     {"optimizer.lr=.nan"},
     "command line: optimizer.lr: '.nan' is not a number"},
    {"PlainNan", "", "", {"optimizer.lr=nan"}, "command line: optimizer.lr: 'nan' is not a number"},
    {"Infinite", "", "", {"run.timeout=.inf"}, "command line: run.timeout: '.inf' is not a number"},
    {"PlainInfinity",
     "",
     "",
     {"run.timeout=-infinity"},
     "command line: run.timeout: '-infinity' is not a number"},
    {"TooLargeForDouble",
     "",
     "",
     {"run.timeout=1e999"},
     "command line: run.timeout: '1e999' is outside the range of double precision"},
    {"TooLargeForInteger",
     "",
     "",
     {"run.seed=9223372036854775808"},
     "command line: run.seed: '9223372036854775808' is outside the range of 64-bit"},
    {"Underscores",
     "",
     "",
     {"train.max_steps=1_000"},
     "command line: train.max_steps: '1_000' is not an integer"},
    {"ExponentInInteger",
     "",
     "",
     {"train.max_steps=1e3"},
     "command line: train.max_steps: '1e3' is not an integer in plain digits"},
    {"FractionInInteger",
     "",
     "",
     {"train.max_steps=64.0"},
     "command line: train.max_steps: '64.0' is not an integer"},
    {"PlusSign",
     "",
     "",
     {"train.max_steps=+5"},
     "command line: train.max_steps: '+5' is not an integer"},
    {"LoneMinus", "", "", {"train.epochs=-"}, "command line: train.epochs: "},
    {"Yes",
     "",
     "",
     {"data.shuffle=yes"},
     "command line: data.shuffle: 'yes' is not a bool; expected true or false"},
    {"On", "", "", {"data.shuffle=on"}, "command line: data.shuffle: 'on' is not a bool"},
    {"CapitalTrue",
     "",
     "",
     {"data.shuffle=True"},
     "command line: data.shuffle: 'True' is not a bool"},
    {"QuotedNumber",
     "",
     "",
     {"optimizer.lr=\"0.1\""},
     "command line: optimizer.lr: found the text '0.1' in quotes; expected a number"},
    {"QuotedBool",
     "",
     "",
     {"data.shuffle='true'"},
     "command line: data.shuffle: found the text 'true' in quotes"},
    {"EmptyValue",
     "optimizer",
     "  eps:\n",
     {},
     "a.yaml:6:3: optimizer.eps: the value is empty (null); expected a number"},
    {"NullText",
     "",
     "",
     {"data.path=~"},
     "command line: data.path: the value is empty (null); expected a text"},
    {"ScalarForList",
     "",
     "",
     {"data.mean=0.5"},
     "command line: data.mean: found '0.5'; expected a list of numbers"},
    {"ListForScalar",
     "",
     "",
     {"optimizer.lr=[0.1]"},
     "command line: optimizer.lr: found a list; expected a number"},
    {"TextInList",
     "data",
     "  mean: [0.5, x]\n",
     {},
     "a.yaml:4:15: data.mean.1: 'x' is not a number"},
    {"MisspeltChoice",
     "",
     "",
     {"schedule.name=cosin"},
     "command line: schedule.name: 'cosin' is not one of the choices; expected one of "
     "constant | linear | step | cosine | one_cycle; did you mean 'cosine'?"},
    {"NewlineInText",
     "",
     "",
     {"data.path=\"a\\nb\""},
     "command line: data.path: a control character in 'a\\x0ab'"},
    {"NulInText",
     "",
     "",
     {"data.path=\"a\\0b\""},
     "command line: data.path: a control character in 'a\\x00b'"},
    {"PixelsNotScaled",
     "",
     "",
     {"data.mean=[125.3]"},
     "command line: data.mean.0: 125.3 is out of range; expected a list of numbers"}};
INSTANTIATE_TEST_SUITE_P(Values, BadConfigs, testing::ValuesIn(kValues), name_of);

constexpr BadConfig kTogether[] = {
    {"NoLength",
     "",
     "",
     {"train.epochs=0"},
     "command line: train.epochs: is missing; expected epochs > 0 or max_steps > 0"},
    {"MicroBatch",
     "train",
     "  micro_batch: 33\n",
     {},
     "a.yaml:9:16: train.micro_batch: 33 is out of range; expected at most "
     "train.global_batch (32)"},
    {"PatienceWithoutSplit",
     "",
     "",
     {"train.patience=2"},
     "command line: train.patience: needs a validation split"},
    {"PatienceWithoutEvaluations",
     "",
     "",
     {"train.patience=2", "data.validation_fraction=0.1", "train.eval_every_epochs=0"},
     "command line: train.patience: needs evaluations while training"},
    {"StepWithoutSize",
     "",
     "",
     {"schedule.name=step"},
     "command line: schedule.step_size: is missing; expected a number > 0"},
    {"WarmupTooLong",
     "",
     "",
     {"schedule.warmup=5", "schedule.duration=5"},
     "command line: schedule.warmup: 5 is too long; expected less than "
     "schedule.duration (5)"},
    {"FirstBucket",
     "",
     "",
     {"parallel.bucket_mb=0.5"},
     "command line: parallel.first_bucket_mb: 1 is out of range; expected at most "
     "parallel.bucket_mb (0.5)"},
    {"MeanAndStd",
     "",
     "",
     {"data.mean=[0.5,0.5]", "data.std=[0.2]"},
     "command line: data.std: has 1 elements, data.mean has 2"},
    {"NesterovAlone",
     "",
     "",
     {"optimizer.nesterov=true"},
     "command line: optimizer.nesterov: needs momentum"},
    {"MomentumOfAdam",
     "",
     "",
     {"optimizer.name=adam", "optimizer.momentum=0.9"},
     "command line: optimizer.momentum: has no effect with optimizer.name: adam; it "
     "is for sgd, muon; delete it"},
    {"InitStd",
     "",
     "",
     {"model.init_std=0.1"},
     "command line: model.init_std: has no effect with model.init: default"},
    {"GroupMomentum",
     "optimizer",
     "  groups: [{match: a, name: adam, momentum: 0.5}]\n",
     {},
     "a.yaml:6:45: optimizer.groups.0.momentum: has no effect with adam"},
    {"GroupMatchesNothing",
     "optimizer",
     "  groups: [{match: \"\"}]\n",
     {},
     "a.yaml:6:20: optimizer.groups.0.match: is empty"},
    {"GroupDuration",
     "optimizer",
     "  groups: [{match: a, duration: 1}]\n",
     {"schedule.warmup=1"},
     "a.yaml:6:33: optimizer.groups.0.duration: is too short"},
    {"DirEmpty", "", "", {"run.dir=\"\""}, "command line: run.dir: is empty"}};
INSTANTIATE_TEST_SUITE_P(Together, BadConfigs, testing::ValuesIn(kTogether), name_of);

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
