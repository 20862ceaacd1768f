// SPDX-License-Identifier: Apache-2.0
#include "optim/patterns.hpp"

#include <cstddef>
#include <set>

#include "base/text.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

// What a pattern could have been: each name, and each with a '*' for its first or last components.
std::vector<std::string> plausible_patterns(const std::vector<std::string>& names) {
  std::set<std::string> patterns(names.begin(), names.end());
  for (const std::string& name : names) {
    for (std::size_t dot = name.find('.'); dot != std::string::npos;
         dot = name.find('.', dot + 1)) {
      patterns.insert(name.substr(0, dot + 1).append("*"));
      patterns.insert(std::string("*").append(name, dot));
    }
  }
  return {patterns.begin(), patterns.end()};
}

}  // namespace

std::string matches_nothing(const std::string& pattern, const std::vector<std::string>& names) {
  std::string message = "matches no parameter of the model; ";
  const std::string hint = did_you_mean(pattern, plausible_patterns(names));
  if (!hint.empty()) return message + hint;
  message += "its parameters are";
  constexpr std::size_t kShown = 8;
  for (std::size_t i = 0; i < names.size() && i < kShown; ++i) {
    message += (i == 0 ? " '" : ", '") + names[i] + "'";
  }
  return message + (names.size() > kShown ? ", ..." : "");
}

std::vector<bool> matched_by(const std::vector<std::string>& patterns,
                             const std::vector<std::string>& names, const std::string& key) {
  std::vector<bool> matched(names.size());
  std::string errors;
  for (const std::string& pattern : patterns) {
    bool any = false;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!glob_match(pattern, names[i])) continue;
      matched[i] = any = true;
    }
    if (any) continue;
    errors += (errors.empty() ? "" : "\n") + key + ": '" + pattern + "' ";
    errors += matches_nothing(pattern, names);
  }
  if (!errors.empty()) throw ConfigError(errors);
  return matched;
}

}  // namespace trireme
