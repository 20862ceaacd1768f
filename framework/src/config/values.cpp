// SPDX-License-Identifier: Apache-2.0
#include "config/values.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>
#include <type_traits>
#include <utility>

#include "base/text.hpp"

namespace trireme {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "010": decimal to a person, octal to YAML 1.1.
bool has_leading_zero(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && is_digit(text[1]);
}

// One scalar of one type; on failure `reason` says what is wrong with it, without the expectation.
template <class T>
std::optional<T> parse_number(std::string_view text, std::string& reason) {
  if (has_leading_zero(text)) {
    reason = "a leading zero in " + quoted(text);
    return std::nullopt;
  }
  const std::string_view magnitude = text.substr(text.starts_with('-') ? 1 : 0);
  // from_chars knows "inf" and "nan", too.
  const bool digits = !magnitude.empty() && (is_digit(magnitude[0]) || magnitude[0] == '.');
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (digits && stop == end && error == std::errc::result_out_of_range) {
    reason = quoted(text) + " is outside the range of " +
             (std::is_integral_v<T> ? "64-bit integers" : "double precision");
    return std::nullopt;
  }
  if (!digits || stop != end || error != std::errc()) {
    const char* what =
        std::is_integral_v<T> ? " is not an integer in plain digits" : " is not a number";
    reason = quoted(text) + what;
    return std::nullopt;
  }
  return value;
}

std::optional<bool> parse_bool(std::string_view text, std::string& reason) {
  if (text == "true") return true;
  if (text == "false") return false;
  reason = quoted(text) + " is not a bool";
  return std::nullopt;
}

// The seconds of "1h30m": days, hours, minutes and seconds, each once at most and in this order.
// Nothing where the text is no such time.
std::optional<double> parse_time(std::string_view text) {
  constexpr std::array<std::pair<char, double>, 4> kUnits{
      {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}}};
  if (text.empty()) return std::nullopt;
  double seconds = 0;
  auto unit = kUnits.begin();
  while (!text.empty()) {
    std::uint32_t count = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    const auto digits = static_cast<std::size_t>(stop - text.data());
    if (error != std::errc() || digits == text.size() || has_leading_zero(text.substr(0, digits)))
      return std::nullopt;
    unit = std::find_if(unit, kUnits.end(), [&](const auto& u) { return u.first == text[digits]; });
    if (unit == kUnits.end()) return std::nullopt;
    seconds += count * (unit++)->second;
    text.remove_prefix(digits + 1);
  }
  return seconds;
}

std::string found(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "the value is empty (null)";
    case YamlNode::Kind::kList:
      return "found a list";
    case YamlNode::Kind::kMap:
      return "found a mapping";
    default:
      return "found " + quoted(node.text);
  }
}

bool in_range(double value, const Limits& limits) {
  const bool above =
      !limits.min || value > *limits.min || (value == *limits.min && !limits.above_min);
  const bool below =
      !limits.max || value < *limits.max || (value == *limits.max && !limits.below_max);
  return above && below;
}

std::optional<std::string> read_text(const YamlNode& node, const FieldSpec& spec,
                                     std::string& reason) {
  if (printable(node.text) != node.text) {
    reason = "a control character in " + quoted(node.text);
    return std::nullopt;
  }
  const std::vector<std::string>& choices = spec.limits.choices;
  if (!choices.empty() && std::ranges::find(choices, node.text) == choices.end()) {
    reason = quoted(node.text) + " is not one of the choices";
    return std::nullopt;
  }
  return node.text;
}

// One element: T is bool, int64, double or string.
template <class T>
std::optional<T> read_scalar(const YamlNode& node, const FieldSpec& spec, std::string& reason) {
  if (node.kind != YamlNode::Kind::kScalar) {
    reason = found(node);
    return std::nullopt;
  }
  if constexpr (std::is_same_v<T, std::string>) {
    return read_text(node, spec, reason);
  } else {
    if (node.quoted) {
      reason = "found the text " + quoted(node.text) + " in quotes";
      return std::nullopt;
    }
    if constexpr (std::is_same_v<T, bool>) {
      return parse_bool(node.text, reason);
    } else {
      std::optional<T> value;
      if constexpr (std::is_same_v<T, double>) {
        if (spec.limits.time) value = parse_time(node.text);
      }
      if (!value) value = parse_number<T>(node.text, reason);
      if (value && !in_range(static_cast<double>(*value), spec.limits)) {
        reason = node.text + " is out of range";
        return std::nullopt;
      }
      return value;
    }
  }
}

void report(const YamlNode& node, const FieldSpec& spec, std::string_view key,
            const std::string& reason, Problems& problems, const std::string& hint = {}) {
  std::string text = reason + "; expected " + expectation(spec) + hint;
  const std::string suggestion = did_you_mean(node.text, spec.limits.choices);
  if (!suggestion.empty()) text += "; " + suggestion;
  problems.add(node.place, key, text);
}

template <class T>
std::optional<Value> read_single(const YamlNode& node, const FieldSpec& spec, std::string_view key,
                                 Problems& problems) {
  std::string reason;
  std::optional<T> value = read_scalar<T>(node, spec, reason);
  if (value) return Value(*std::move(value));
  report(node, spec, key, reason, problems);
  return std::nullopt;
}

template <class T>
std::optional<Value> read_list(const YamlNode& node, const FieldSpec& spec, std::string_view key,
                               Problems& problems) {
  std::vector<T> values;
  if (node.kind != YamlNode::Kind::kList) {
    const bool one = node.kind == YamlNode::Kind::kScalar;
    const std::string as_list = one ? "; did you mean [" + node.text + "]?" : "";
    report(node, spec, key, found(node), problems, as_list);
    return std::nullopt;
  }
  for (const YamlNode& item : node.items) {
    std::string reason;
    const std::optional<T> value = read_scalar<T>(item, spec, reason);
    if (value) {
      values.push_back(*value);
    } else if (item.kind != YamlNode::Kind::kRefused) {
      const std::string index = std::to_string(&item - node.items.data());
      report(item, spec, std::string(key) + "." + index, reason, problems);
    }
  }
  if (values.size() != node.items.size()) return std::nullopt;
  return Value(std::move(values));
}

// Words that need no quotes in YAML, neither 1.1 nor 1.2.
bool is_plain(std::string_view text) {
  constexpr std::array<std::string_view, 11> kReserved{"true", "false", "null", "yes", "no", "on",
                                                       "off",  "y",     "n",    "nan", "inf"};
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  const auto letter = [&](char c) { return lower(c) >= 'a' && lower(c) <= 'z'; };
  if (text.empty() || !letter(text[0])) return false;
  std::string word(text);
  std::ranges::transform(word, word.begin(), lower);
  if (std::ranges::find(kReserved, word) != kReserved.end()) return false;
  return std::ranges::all_of(text, [&](char c) {
    return letter(c) || is_digit(c) || c == '_' || c == '-' || c == '/' || c == '.';
  });
}

std::string text_in_yaml(std::string_view text) {
  if (is_plain(text)) return std::string(text);
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

}  // namespace

std::optional<Value> read_value(const YamlNode& node, const FieldSpec& spec, std::string_view key,
                                Problems& problems) {
  if (node.kind == YamlNode::Kind::kRefused) return std::nullopt;
  switch (spec.type) {
    case ValueType::kBool:
      return read_single<bool>(node, spec, key, problems);
    case ValueType::kInteger:
      return read_single<std::int64_t>(node, spec, key, problems);
    case ValueType::kNumber:
      return read_single<double>(node, spec, key, problems);
    case ValueType::kText:
      return read_single<std::string>(node, spec, key, problems);
    case ValueType::kIntegers:
      return read_list<std::int64_t>(node, spec, key, problems);
    case ValueType::kNumbers:
      return read_list<double>(node, spec, key, problems);
    case ValueType::kTexts:
      return read_list<std::string>(node, spec, key, problems);
  }
  throw InternalError("a value type without a reader");
}

std::string number_text(double value) {
  std::array<char, 32> buffer{};
  char* end = buffer.data() + buffer.size();
  const bool whole = std::abs(value) < 1e15 && value == std::trunc(value);
  const auto result = whole ? std::to_chars(buffer.data(), end, value, std::chars_format::fixed)
                            : std::to_chars(buffer.data(), end, value);
  std::string text(buffer.data(), result.ptr);
  // YAML 1.1 readers (PyYAML) take 1e-08 for a text, 1.0e-08 for a number.
  const auto exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos)
    text.insert(exponent, ".0");
  return text;
}

std::string yaml_text(const Value& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return "";
        } else if constexpr (std::is_same_v<T, bool>) {
          return v ? "true" : "false";
        } else if constexpr (std::is_same_v<T, std::int64_t>) {
          return std::to_string(v);
        } else if constexpr (std::is_same_v<T, double>) {
          return number_text(v);
        } else if constexpr (std::is_same_v<T, std::string>) {
          return text_in_yaml(v);
        } else {
          std::string list;
          for (const auto& element : v) {
            list += (list.empty() ? "" : ", ") + yaml_text(Value(element));
          }
          return "[" + list + "]";
        }
      },
      value);
}

std::string_view type_name(ValueType type) {
  constexpr std::array<std::string_view, 7> kNames{
      "bool", "integer", "number", "text", "list of integers", "list of numbers", "list of texts"};
  return kNames[static_cast<std::size_t>(type)];
}

std::string range_text(const Limits& limits) {
  if (!limits.choices.empty()) {
    std::string list;
    for (const std::string& choice : limits.choices) list += (list.empty() ? "" : " | ") + choice;
    return list;
  }
  if (limits.min && limits.max) {
    return (limits.above_min ? "(" : "[") + number_text(*limits.min) + ", " +
           number_text(*limits.max) + (limits.below_max ? ")" : "]");
  }
  if (limits.min) return (limits.above_min ? "> " : ">= ") + number_text(*limits.min);
  if (limits.max) return (limits.below_max ? "< " : "<= ") + number_text(*limits.max);
  return "";
}

std::string expectation(const FieldSpec& spec) {
  const std::string range = range_text(spec.limits);
  if (!spec.limits.choices.empty()) {
    return (spec.type == ValueType::kTexts ? "a list, each one of " : "one of ") + range;
  }
  const std::string interval =
      range.starts_with('(') || range.starts_with('[') ? "in " + range : range;
  switch (spec.type) {
    case ValueType::kBool:
      return "true or false";
    case ValueType::kInteger:
      return "an integer" + (range.empty() ? "" : " " + interval);
    case ValueType::kNumber:
      return "a number" + (range.empty() ? "" : " " + interval) +
             (spec.limits.time ? ", in seconds, or a time such as 1h30m" : "");
    case ValueType::kText:
      return "a text";
    case ValueType::kIntegers:
      return "a list of integers such as [1, 2]" + (range.empty() ? "" : ", each " + interval);
    case ValueType::kNumbers:
      return "a list of numbers such as [0.5, 0.5]" + (range.empty() ? "" : ", each " + interval);
    case ValueType::kTexts:
      return "a list of texts such as [a, b]";
  }
  throw InternalError("a value type without words");
}

}  // namespace trireme
