// SPDX-License-Identifier: Apache-2.0
// The one table of configuration keys. Reading, overrides, dump, comparison, schema and reference
// all walk it: a new key is one member in config.hpp and one line in fields.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "config/config.hpp"
#include "config/read.hpp"

namespace trireme {

// monostate: not set (keys of a parameter group only).
using Value =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                 std::vector<double>, std::vector<std::string>>;

enum class ValueType { kBool, kInteger, kNumber, kText, kIntegers, kNumbers, kTexts };

// What a value must be, apart from its type. The defaults allow everything.
struct Limits {
  std::optional<double> min = std::nullopt;  // numbers, and each element of a list
  std::optional<double> max = std::nullopt;
  bool above_min = false;                 // min itself is not allowed
  bool below_max = false;                 // max itself is not allowed
  std::vector<std::string> choices = {};  // texts, and each element of a list; empty: any
  bool required = false;
  bool time = false;  // a number of seconds, which may also be written as 1h30m
  // The key has an effect only where the section's chooser is one of these; elsewhere it must keep
  // its default.
  std::vector<std::string> only_for = {};
  std::vector<std::string> synonyms = {};  // what others call it: for suggestions only
  std::string default_note = {};           // replaces the default value in the reference
};

// One key, without its storage.
struct FieldSpec {
  std::string key;  // "lr"
  ValueType type = ValueType::kText;
  Value default_value;
  std::string help;  // one sentence
  Limits limits;
};

// One key and where it is kept in an Owner (Config, GroupConfig).
template <class Owner>
struct Field : FieldSpec {
  std::function<Value(const Owner&)> get;
  std::function<void(Owner&, const Value&)> set;  // the value has the field's type
};

// A section whose `name` chooses a registered part.
struct Registered {
  std::string part;  // "model"
  std::function<std::vector<std::string>(const DeclaredOptions&)> names;
  // What a part declares; nullptr where it is unknown or declares nothing.
  std::function<const std::vector<OptionSpec>*(const DeclaredOptions&, const std::string&)> options;
  // Its options in a Config; nullptr where such parts have none.
  std::function<const Options*(const Config&)> get_options;
  std::function<void(Config&, const Options&)> set_options;
};

struct Section {
  std::string name;  // "optimizer"
  std::string help;
  std::vector<Field<Config>> fields;
  std::optional<Registered> registered = std::nullopt;
  bool has_groups = false;       // the list `groups`, each element with group_fields()
  std::string chooser = "name";  // the key that decides which others have an effect
};

// In the order of the reference and of dumps.
const std::vector<Section>& config_sections();
// The keys of one element of optimizer.groups.
const std::vector<Field<GroupConfig>>& group_fields();

// The key of a declared option.
FieldSpec option_field(const OptionSpec& option);
Value to_value(const OptionValue& value);
OptionValue to_option_value(const Value& value);

// The options that the part named in this section declares; empty where it declares none.
const std::vector<OptionSpec>& declared_options(const Section& section,
                                                const DeclaredOptions& declared,
                                                const std::string& name);

}  // namespace trireme
