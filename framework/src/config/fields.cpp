// SPDX-License-Identifier: Apache-2.0
#include "config/fields.hpp"

#include <type_traits>
#include <utility>

#include "config/field_types.hpp"

namespace trireme {
namespace {

template <class T>
Field<GroupConfig> group_field(std::string key, T GroupConfig::*member, std::string help,
                               Limits limits = {}) {
  using Type = typename Stored<T>::Type;
  Field<GroupConfig> result;
  result.key = std::move(key);
  result.type = type_of<Type>();
  result.help = std::move(help);
  result.limits = std::move(limits);
  result.get = [=](const GroupConfig& group) { return as_value(group.*member); };
  result.set = [=](GroupConfig& group, const Value& value) {
    group.*member = std::get<Type>(value);
  };
  result.default_value = result.get(GroupConfig{});
  return result;
}

}  // namespace

const std::vector<Field<GroupConfig>>& group_fields() {
  static const std::vector<Field<GroupConfig>> fields{
      group_field("match", &GroupConfig::match,
                  "Pattern on parameter names: '*' any characters, '?' one; the first group that "
                  "matches takes a parameter.",
                  {.required = true, .synonyms = {"params", "pattern"}}),
      group_field("frozen", &GroupConfig::frozen, "These parameters keep their initial values."),
      group_field("name", &GroupConfig::name, "Another update rule.",
                  {.choices = optimizer_names()}),
      group_field("lr", &GroupConfig::lr, "Another learning rate.",
                  {.min = 0, .max = 1e6, .synonyms = {"learning_rate"}}),
      group_field("weight_decay", &GroupConfig::weight_decay, "Another weight decay.",
                  {.min = 0, .max = 1e6}),
      group_field("momentum", &GroupConfig::momentum, "Another momentum.",
                  {.min = 0, .max = 1, .below_max = true, .only_for = {"sgd", "muon"}}),
      group_field("duration", &GroupConfig::duration,
                  "Another length of the schedule, in schedule.unit.",
                  {.min = 0, .max = kMostLength, .above_min = true}),
  };
  return fields;
}

FieldSpec option_field(const OptionSpec& option) {
  constexpr ValueType kTypes[] = {ValueType::kBool, ValueType::kInteger, ValueType::kNumber,
                                  ValueType::kText, ValueType::kIntegers};
  return {.key = option.name,
          .type = kTypes[option.default_value.index()],
          .default_value = to_value(option.default_value),
          .help = option.help,
          .limits = {.min = option.min, .max = option.max, .choices = option.choices}};
}

Value to_value(const OptionValue& value) {
  return std::visit([](const auto& v) { return Value(v); }, value);
}

OptionValue to_option_value(const Value& value) {
  return std::visit(
      [](const auto& v) -> OptionValue {
        if constexpr (std::is_constructible_v<OptionValue, decltype(v)>) {
          return v;
        } else {
          throw InternalError("a value of a type that no option can have");
        }
      },
      value);
}

const std::vector<OptionSpec>& declared_options(const Section& section,
                                                const DeclaredOptions& declared,
                                                const std::string& name) {
  static const std::vector<OptionSpec> none;
  if (!section.registered) return none;
  const std::vector<OptionSpec>* options = section.registered->options(declared, name);
  return options == nullptr ? none : *options;
}

}  // namespace trireme
