// SPDX-License-Identifier: Apache-2.0
// How the members of the configuration structs become values of the field table. For the files that
// hold the table only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/fields.hpp"

namespace trireme {

// Upper bound of lengths that are converted to whole steps later: far beyond use, short of
// overflow.
inline constexpr double kMostLength = 1e9;
// The same for what is converted to milliseconds.
inline constexpr double kMostSeconds = 1e6;

inline std::vector<std::string> optimizer_names() { return {"sgd", "adam", "adamw", "muon"}; }

template <class T>
struct Stored {
  using Type = T;
};
template <class T>
struct Stored<std::optional<T>> {
  using Type = T;
};

template <class T>
constexpr ValueType type_of() {
  if constexpr (std::is_same_v<T, bool>) return ValueType::kBool;
  if constexpr (std::is_same_v<T, std::int64_t>) return ValueType::kInteger;
  if constexpr (std::is_same_v<T, double>) return ValueType::kNumber;
  if constexpr (std::is_same_v<T, std::string>) return ValueType::kText;
  if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) return ValueType::kIntegers;
  if constexpr (std::is_same_v<T, std::vector<double>>) return ValueType::kNumbers;
  if constexpr (std::is_same_v<T, std::vector<std::string>>) return ValueType::kTexts;
}

template <class T>
Value as_value(const T& member) {
  return member;
}
template <class T>
Value as_value(const std::optional<T>& member) {
  return member ? Value(*member) : Value();
}

// A field of Config from its section and member; the default is what a fresh Config holds.
template <class S, class T>
Field<Config> field(std::string key, S Config::*section, T S::*member, std::string help,
                    Limits limits = {}) {
  Field<Config> result;
  result.key = std::move(key);
  result.type = type_of<T>();
  result.help = std::move(help);
  result.limits = std::move(limits);
  result.get = [=](const Config& config) { return as_value(config.*section.*member); };
  result.set = [=](Config& config, const Value& value) {
    config.*section.*member = std::get<T>(value);
  };
  result.default_value = result.get(Config{});
  return result;
}

inline std::vector<std::string> keys_of(
    const std::map<std::string, std::vector<OptionSpec>>& parts) {
  std::vector<std::string> names;
  for (const auto& [name, options] : parts) names.push_back(name);
  return names;
}

// A section whose parts declare options: which map of DeclaredOptions, and where the values go.
template <class S>
Registered registered(const std::string& part,
                      std::map<std::string, std::vector<OptionSpec>> DeclaredOptions::*parts,
                      S Config::*section) {
  return {.part = part,
          .names = [=](const DeclaredOptions& declared) { return keys_of(declared.*parts); },
          .options = [=](const DeclaredOptions& declared,
                         const std::string& name) -> const std::vector<OptionSpec>* {
            const auto found = (declared.*parts).find(name);
            return found == (declared.*parts).end() ? nullptr : &found->second;
          },
          .get_options = [=](const Config& config) { return &(config.*section).options; },
          .set_options = [=](Config& config,
                             const Options& options) { (config.*section).options = options; }};
}

// Sections that have files of their own.
Section run_section();
Section model_section();
Section network_section();

}  // namespace trireme
