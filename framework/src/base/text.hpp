// SPDX-License-Identifier: Apache-2.0
// Small text tools that several layers need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Whole-text match: '*' any characters (dots too, none too), '?' exactly one. No other character is
// special.
bool glob_match(std::string_view pattern, std::string_view text);

// The candidates that a misspelt word may have meant, best first: small edit distance (a swap of
// neighbours counts one).
std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates,
                                 std::size_t most = 3);

// For a message: control characters as \xNN, the rest as it is.
std::string printable(std::string_view text);

// "a, b, c"
std::string joined(const std::vector<std::string>& words, std::string_view separator = ", ");

// "1 rank", "2 ranks"
std::string plural(std::int64_t count, std::string_view noun);

// "did you mean 'a' or 'b'?", or "" where nothing is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace trireme
