// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "config/fields.hpp"
#include "config/values.hpp"
#include "unit/config/support.hpp"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// Random valid values for every key of the table.
class RandomConfig {
 public:
  explicit RandomConfig(std::uint64_t seed) : random_(seed) {}

  Value value(const FieldSpec& spec) {
    switch (spec.type) {
      case ValueType::kBool:
        return below(2) == 0;
      case ValueType::kInteger:
        return integer(spec.limits);
      case ValueType::kNumber:
        return number(spec.limits);
      case ValueType::kText:
        return text(spec.limits);
      case ValueType::kIntegers:
        return std::vector<std::int64_t>{integer(spec.limits), integer(spec.limits)};
      case ValueType::kTexts:
        return std::vector<std::string>{"eth0", "10.0.0.0/16", "true"};
      default:
        return std::vector<double>{number(spec.limits), number(spec.limits)};
    }
  }

  std::uint64_t below(std::uint64_t n) { return random_() % n; }

 private:
  std::int64_t integer(const Limits& limits) {
    const auto low = static_cast<std::int64_t>(limits.min.value_or(0));
    const auto high = static_cast<std::int64_t>(limits.max.value_or(9e18));
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
  }
  // Any bit pattern within the limits: most have 17 digits and an exponent.
  double number(const Limits& limits) {
    const double low = limits.min.value_or(0);
    const double high = limits.max.value_or(1e9);
    for (;;) {
      const double any = std::bit_cast<double>(random_());
      const double value =
          below(2) == 0 ? any : low + (high - low) * 0x1p-64 * static_cast<double>(random_());
      if (value > low && value < high) return value;
    }
  }
  std::string text(const Limits& limits) {
    if (!limits.choices.empty()) return limits.choices[below(limits.choices.size())];
    static const std::string kPieces[] = {"a", "\"",     "\\",   "'",   "#", ": ", "*",
                                          "&", "\u00e9", "true", "1e5", " ", "{",  "]",
                                          "-", "null",   "%",    "@",   "!", "010"};
    std::string result = "x";
    if (below(2) == 0) result = kPieces[below(20)];
    for (std::uint64_t i = below(6); i > 0; --i) result += kPieces[below(20)];
    return result;
  }

  std::mt19937_64 random_;
};

// A Config of random values; only what check_config demands of keys together is put right.
Config random_config(std::uint64_t seed) {
  RandomConfig random(seed);
  Config config = read(kValid).config;
  for (const Section& section : config_sections()) {
    for (const Field<Config>& field : section.fields) {
      const bool name = section.registered && field.key == "name";
      if (!name && field.limits.only_for.empty()) field.set(config, random.value(field));
    }
  }
  for (const char* part : {"mlp", "convnet"}) {
    if (config.model.channels_last == (config.model.name == part)) config.model.name = part;
  }
  Options options;
  const DeclaredOptions parts = test_parts();
  for (const OptionSpec& option : parts.models.at(config.model.name)) {
    options.set(option.name, to_option_value(random.value(option_field(option))));
  }
  config.model.options = options;
  for (std::uint64_t i = random.below(3); i > 0; --i) {
    GroupConfig group;
    for (const Field<GroupConfig>& field : group_fields()) {
      if (field.limits.only_for.empty()) field.set(group, random.value(field));
    }
    group.duration = config.schedule.warmup + 1;
    config.optimizer.groups.push_back(group);
  }
  config.run.name = "run-" + std::to_string(seed);
  config.run.time_margin = config.run.time_limit / 2;
  config.model.init = "normal";
  config.schedule.name = seed % 2 == 0 ? "cosine" : "constant";
  config.schedule.duration = 0;
  config.train.micro_batch = 0;
  config.train.patience = 0;
  config.train.update_in_backward = false;
  config.parallel.edge_bucket_mb = config.parallel.bucket_mb / 3;
  config.parallel.shard_over = "node";
  config.parallel.compression = "powersgd";
  config.parallel.error_feedback = false;
  config.parallel.sync_every = 1;
  config.train.precision = "fp32";
  return config;
}

TEST(DumpConfig, ReadsBackToTheSameConfigurationBitForBit) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Config config = random_config(seed);
    const std::string text = dump_config(config);
    ASSERT_EQ(errors_of(text), "") << text;
    const Config again = read(text).config;
    EXPECT_THAT(compare_configs(config, again), IsEmpty()) << text;
    EXPECT_EQ(dump_config(again), text);
    // compare_configs compares texts; these compare bits.
    for (const Section& section : config_sections()) {
      for (const Field<Config>& field : section.fields) {
        EXPECT_EQ(field.get(config), field.get(again)) << section.name << '.' << field.key;
      }
    }
    EXPECT_EQ(config.model.options.values(), again.model.options.values());
    ASSERT_EQ(config.optimizer.groups.size(), again.optimizer.groups.size());
    for (std::size_t i = 0; i < again.optimizer.groups.size(); ++i) {
      for (const Field<GroupConfig>& field : group_fields()) {
        EXPECT_EQ(field.get(config.optimizer.groups[i]), field.get(again.optimizer.groups[i]));
      }
    }
  }
}

TEST(DumpConfig, WritesTheSectionsInOrderWithEveryKey) {
  const std::string text = dump_config(read(kValid).config);
  EXPECT_THAT(
      text,
      HasSubstr(
          "run:\n  name: a\n  dir: runs/a\n  shared: true\n  seed: 0\n  device: cpu\n  timeout: "
          "600\n  time_limit: 0\n  time_margin: 120\n\nmodel:\n"));
  EXPECT_THAT(text, HasSubstr("  eps: 1.0e-08\n"));
  EXPECT_THAT(text, HasSubstr("  groups: []\n"));
  EXPECT_THAT(text, HasSubstr("  hidden: [64, 32]\n"));
}

TEST(DumpConfig, SaysWhereEachValueComesFromAndStillReadsBack) {
  const ReadConfig result = read(kValid, {"optimizer.groups=[{match: \"*.bias\", lr: 0}]"});
  const std::string text = dump_config(result.config, &result.origin);
  EXPECT_THAT(text, HasSubstr("  lr: 0.1  # from a.yaml:7:7\n"));
  EXPECT_THAT(text, HasSubstr("  momentum: 0  # default\n"));
  EXPECT_THAT(text, HasSubstr("    - match: \"*.bias\"  # from command line\n"
                              "      frozen: false  # default\n"
                              "      lr: 0  # from command line\n"));
  EXPECT_THAT(compare_configs(result.config, read(text).config), IsEmpty());
}

TEST(CompareConfigs, NamesEachKeyThatDiffers) {
  const std::string groups = "optimizer.groups=[{match: a, lr: 1}]";
  const Config before = read(kValid, {groups}).config;
  const Config after = read(kValid, {"optimizer.lr=0.2", "model.hidden=[1]",
                                     "optimizer.groups=[{match: a, lr: 2}, {match: b}]"})
                           .config;
  std::string text;
  for (const ConfigDifference& difference : compare_configs(before, after)) {
    text += difference.key + ": " + difference.before + " -> " + difference.after + "\n";
  }
  EXPECT_EQ(text,
            "model.hidden: [64, 32] -> [1]\n"
            "optimizer.lr: 0.1 -> 0.2\n"
            "optimizer.groups.0.lr: 1 -> 2\n"
            "optimizer.groups.1.match: not set -> b\n"
            "optimizer.groups.1.frozen: not set -> false\n");
  EXPECT_THAT(compare_configs(before, before), IsEmpty());
}

TEST(CompareConfigs, ListsTheOptionsOfBothModelsWhereTheModelChanges) {
  const auto differences =
      compare_configs(read(kValid).config, read(kValid, {"model.name=convnet"}).config);
  std::vector<std::string> keys;
  for (const ConfigDifference& difference : differences) keys.push_back(difference.key);
  EXPECT_THAT(keys, testing::UnorderedElementsAre("model.name", "model.bias", "model.hidden",
                                                  "model.width", "model.activation"));
}

}  // namespace
}  // namespace trireme
