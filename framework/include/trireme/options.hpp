// SPDX-License-Identifier: Apache-2.0
// Options that a registered model, data set, loss or metric declares for itself. The configuration
// reader checks them as strictly as its own keys: unknown names, wrong types and values out of
// range are errors at file:line:column.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "trireme/error.hpp"

namespace trireme {

using OptionValue =
    std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;

// One key, as it appears in the configuration below the section of its owner (`model.width`).
struct OptionSpec {
  std::string name;                          // snake_case
  OptionValue default_value;                 // fixes the type, too
  std::string help;                          // one sentence; goes into the generated reference
  std::optional<double> min = std::nullopt;  // inclusive; numbers (and each element of a list) only
  std::optional<double> max = std::nullopt;  // inclusive
  std::vector<std::string> choices = {};     // strings only; empty: any string
};

// The values after parsing: every declared option is present.
class Options {
 public:
  // T must be the declared type; anything else is the programmer's error (InternalError).
  template <class T>
  const T& get(const std::string& name) const {
    const auto found = values_.find(name);
    TRIREME_ASSERT(found != values_.end(), "option '" + name + "' was not declared");
    const T* value = std::get_if<T>(&found->second);
    TRIREME_ASSERT(value != nullptr, "option '" + name + "' was declared with another type");
    return *value;
  }
  void set(const std::string& name, OptionValue value) { values_[name] = std::move(value); }
  const std::map<std::string, OptionValue>& values() const { return values_; }

 private:
  std::map<std::string, OptionValue> values_;  // [option name]
};

// The defaults of `specs`, as a start or for tests.
Options default_options(const std::vector<OptionSpec>& specs);

}  // namespace trireme
