// SPDX-License-Identifier: Apache-2.0
// Patterns on parameter names: '*' matches any characters, '?' one.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// "matches no parameter of the model; did you mean 'layers.*'?", or the first names where none is
// near.
std::string matches_nothing(const std::string& pattern, const std::vector<std::string>& names);

// [name] whether one of the patterns matches it. Throws one ConfigError with all patterns that
// match nothing; key: what they are the value of.
std::vector<bool> matched_by(const std::vector<std::string>& patterns,
                             const std::vector<std::string>& names, const std::string& key);

}  // namespace trireme
