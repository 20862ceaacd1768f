// SPDX-License-Identifier: Apache-2.0
// Driven by the field table: whatever key is added there is tested here.
#include "config/fields.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "config/values.hpp"
#include "unit/config/support.hpp"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// One key with the tokens that a test needs: its dotted name and the override that sets it.
struct Key {
  std::string section;
  FieldSpec spec;
  std::string dotted;
};

std::vector<Key> all_keys() {
  std::vector<Key> keys;
  for (const Section& section : config_sections()) {
    for (const FieldSpec& field : section.fields) {
      keys.push_back({section.name, field, section.name + "." + field.key});
    }
  }
  for (const FieldSpec& field : group_fields()) {
    keys.push_back({"optimizer", field, "optimizer.groups.0." + field.key});
  }
  const DeclaredOptions parts = test_parts();
  for (const auto& [part, options] : parts.models) {
    for (const OptionSpec& option : options) {
      keys.push_back({"model", option_field(option), "model." + option.name});
    }
  }
  return keys;
}

// The valid configuration, with a group, and with the model that declares the key.
std::string text_for(const Key& key) {
  std::string text = kValid;
  text.insert(text.find("train:"), "  groups:\n    - match: \"*\"\n");
  const DeclaredOptions parts = test_parts();
  for (const OptionSpec& option : parts.models.at("convnet")) {
    const bool same_type = option_field(option).type == key.spec.type;
    if (key.dotted == "model." + option.name && same_type) {
      text.replace(text.find("mlp"), 3, "convnet");
    }
  }
  return text;
}

bool is_list(const FieldSpec& spec) {
  return spec.type == ValueType::kIntegers || spec.type == ValueType::kNumbers ||
         spec.type == ValueType::kTexts;
}

std::string errors_with(const Key& key, const std::string& value) {
  return errors_of(text_for(key), {key.dotted + "=" + value});
}

// A number just outside of a limit.
double beyond(double limit, bool open, bool integer, double direction) {
  if (integer) return limit + (open ? 0 : direction);
  return open ? limit : std::nextafter(limit, direction * std::numeric_limits<double>::infinity());
}

std::string as_value(const FieldSpec& spec, double number) {
  const bool integer = spec.type == ValueType::kInteger || spec.type == ValueType::kIntegers;
  const std::string text =
      integer ? std::to_string(static_cast<std::int64_t>(number)) : number_text(number);
  return is_list(spec) ? "[" + text + "]" : text;
}

TEST(FieldTable, AValueOfAnotherTypeFailsAndNamesTheKey) {
  for (const Key& key : all_keys()) {
    const std::string start = "command line: " + key.dotted;
    EXPECT_THAT(errors_with(key, "{a: 1}"), StartsWith(start + ": found a mapping; expected "));
    EXPECT_THAT(errors_with(key, "null"), StartsWith(start + ": the value is empty"));
    EXPECT_THAT(errors_with(key, "[[x]]"), StartsWith(start));
    if (key.spec.type == ValueType::kText) continue;
    EXPECT_THAT(errors_with(key, "word"), StartsWith(start)) << key.dotted;
    EXPECT_THAT(errors_with(key, "\"1\""), StartsWith(start)) << key.dotted;
  }
}

TEST(FieldTable, AValueOutOfRangeFailsAndNamesTheKey) {
  for (const Key& key : all_keys()) {
    const Limits& limits = key.spec.limits;
    const bool integer =
        key.spec.type == ValueType::kInteger || key.spec.type == ValueType::kIntegers;
    const std::string start = "command line: " + key.dotted;
    if (limits.min) {
      const double low = beyond(*limits.min, limits.above_min, integer, -1);
      EXPECT_THAT(errors_with(key, as_value(key.spec, low)), StartsWith(start)) << key.dotted;
    }
    if (limits.max) {
      const double high = beyond(*limits.max, limits.below_max, integer, 1);
      EXPECT_THAT(errors_with(key, as_value(key.spec, high)), StartsWith(start)) << key.dotted;
    }
    if (!limits.choices.empty()) {
      EXPECT_THAT(errors_with(key, "nonesuch"), StartsWith(start)) << key.dotted;
    }
  }
}

TEST(FieldTable, EveryNumberHasALowerBound) {
  for (const Key& key : all_keys()) {
    const bool number = key.spec.type != ValueType::kText && key.spec.type != ValueType::kTexts &&
                        key.spec.type != ValueType::kBool;
    EXPECT_TRUE(!number || key.spec.limits.min) << key.dotted;
  }
}

TEST(FieldTable, EveryChoiceIsAccepted) {
  for (const Key& key : all_keys()) {
    for (const std::string& choice : key.spec.limits.choices) {
      const std::string value = is_list(key.spec) ? "[" + choice + "]" : choice;
      std::vector<std::string> overrides{key.dotted + "=" + value};
      if (key.spec.key.starts_with("ucx_")) overrides.emplace_back("network.transport=ucx");
      if (choice == "step") overrides.emplace_back("schedule.step_size=1");
      EXPECT_EQ(errors_of(text_for(key), overrides), "") << overrides[0];
    }
  }
}

TEST(FieldTable, EveryDefaultIsAllowedAndReadsBackAsItself) {
  for (const Key& key : all_keys()) {
    if (key.spec.limits.required || key.spec.default_value.index() == 0) continue;
    if (!key.spec.limits.default_note.empty()) continue;
    Problems problems("a.yaml");
    const std::string text = yaml_text(key.spec.default_value);
    const YamlNode node = parse_yaml(text, key.dotted, problems);
    EXPECT_EQ(read_value(node, key.spec, key.dotted, problems), key.spec.default_value) << text;
    EXPECT_NO_THROW(problems.throw_if_any()) << key.dotted;
  }
}

TEST(FieldTable, AMisspeltKeyGetsItsSuggestion) {
  for (const Key& key : all_keys()) {
    std::string misspelt = key.spec.key;
    std::swap(misspelt[0], misspelt[1]);
    const std::string prefix = key.dotted.substr(0, key.dotted.size() - key.spec.key.size());
    EXPECT_THAT(errors_of(text_for(key), {prefix + misspelt + "=1"}),
                testing::AllOf(HasSubstr(prefix + misspelt + ": unknown key; did you mean "),
                               HasSubstr("'" + key.spec.key + "'")));
  }
}

TEST(FieldTable, ASynonymGetsItsKeyAsSuggestion) {
  for (const Key& key : all_keys()) {
    const std::string prefix = key.dotted.substr(0, key.dotted.size() - key.spec.key.size());
    for (const std::string& synonym : key.spec.limits.synonyms) {
      EXPECT_THAT(errors_of(text_for(key), {prefix + synonym + "=1"}),
                  HasSubstr("'" + key.spec.key + "'"))
          << prefix + synonym;
    }
  }
}

TEST(FieldTable, ARequiredKeyThatIsMissingIsNamed) {
  for (const Key& key : all_keys()) {
    if (!key.spec.limits.required) continue;
    std::string text = text_for(key);
    const bool group = key.dotted.find("groups") != std::string::npos;
    const std::string line = group ? "match: \"*\"" : "  " + key.spec.key + ": ";
    const auto start = text.find(line, text.find(key.section + ":"));
    ASSERT_NE(start, std::string::npos) << key.dotted;
    const auto end = text.find('\n', start);
    text.replace(start, end - start, group ? "frozen: true" : "");
    EXPECT_THAT(errors_of(text), HasSubstr(key.dotted + ": is missing; expected "));
  }
}

TEST(FieldTable, EveryKeyHasAHelpSentenceAndNoNameTwice) {
  for (const Section& section : config_sections()) {
    EXPECT_TRUE(section.help.ends_with('.')) << section.name;
    for (const FieldSpec& field : section.fields) {
      EXPECT_TRUE(field.help.ends_with('.')) << section.name << '.' << field.key;
      EXPECT_EQ(std::ranges::count(section.fields, field.key, &FieldSpec::key), 1) << field.key;
    }
  }
}

// An allowed value that is not the default.
std::string another_value(const FieldSpec& field) {
  const std::vector<std::string>& choices = field.limits.choices;
  if (field.type == ValueType::kTexts) return "[" + (choices.empty() ? "a" : choices[0]) + "]";
  if (!choices.empty()) return choices.back();
  if (field.type == ValueType::kBool) return "true";
  if (field.type == ValueType::kInteger) return field.key == "rendezvous_bytes" ? "2048" : "3";
  return "0.77";
}

TEST(FieldTable, KeysForOtherNamesOfTheSectionAreErrorsUnlessTheyHoldTheDefault) {
  for (const Section& section : config_sections()) {
    for (const FieldSpec& field : section.fields) {
      if (field.limits.only_for.empty()) continue;
      // A name that the key is not for.
      const auto& names = section.fields[0].limits.choices;
      const auto other = std::ranges::find_if(names, [&](const std::string& name) {
        return std::ranges::find(field.limits.only_for, name) == field.limits.only_for.end();
      });
      const std::string value = another_value(field);
      const std::string key = section.name + "." + field.key;
      const std::string chooser = section.name + "." + section.chooser;
      const std::string name = chooser + "=" + *other;
      const std::string step = *other == "step" ? "schedule.step_size=1" : "schedule.unit=epochs";
      EXPECT_THAT(errors_of(kValid, {name, step, key + "=" + value}),
                  HasSubstr(key + ": has no effect with " + chooser + ": " + *other));
      EXPECT_EQ(errors_of(kValid, {name, step, key + "=" + yaml_text(field.default_value)}), "");
    }
  }
}

}  // namespace
}  // namespace trireme
