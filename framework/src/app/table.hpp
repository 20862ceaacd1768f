// SPDX-License-Identifier: Apache-2.0
// Tables for people to read.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// A line a row; columns start below each other, two spaces apart; nothing trails. Rows may be
// shorter than others.
std::string aligned(const std::vector<std::vector<std::string>>& rows);

// text with `prefix` before each of its lines that is not empty.
std::string indented(const std::string& text, const std::string& prefix = "  ");

}  // namespace trireme
