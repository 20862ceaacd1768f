// SPDX-License-Identifier: Apache-2.0
// Values of configuration keys: from YAML with all checks, back to YAML, and in words.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/fields.hpp"
#include "config/problems.hpp"
#include "config/yaml.hpp"

namespace trireme {

// The value of `node` for a key, or nothing where it is not allowed there; `problems` then says
// why. key: dotted.
std::optional<Value> read_value(const YamlNode& node, const FieldSpec& spec, std::string_view key,
                                Problems& problems);

// As YAML on one line, so that read_value gives the same value bit for bit. Not set: "".
std::string yaml_text(const Value& value);

// "a number in [0, 1)", "one of sgd | adam": what a key expects.
std::string expectation(const FieldSpec& spec);
// "> 0", "[0, 1)", "a | b"; "" where anything goes.
std::string range_text(const Limits& limits);
// "integer", "list of numbers".
std::string_view type_name(ValueType type);
// Shortest text that reads back as this number.
std::string number_text(double value);

}  // namespace trireme
