// SPDX-License-Identifier: Apache-2.0
// Collects what is wrong with a configuration, so that all of it is reported in one ConfigError.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme {

// Where a value was written: 1-based line and column (in bytes) of a file, or the command line.
struct Place {
  int line = 0;  // 0: the command line
  int column = 0;
  int file = 0;  // as Problems counts them

  bool operator==(const Place&) const = default;
};

class Problems {
 public:
  explicit Problems(std::string_view file);  // file 0
  // One more file that values come from; returns its number.
  int add_file(std::string_view file);

  // key: dotted, or "" where none is meant. text: what; expected; hint.
  void add(Place place, std::string_view key, std::string_view text);
  // Ends the collecting: throws what was found so far and this.
  [[noreturn]] void fail(Place place, std::string_view key, std::string_view text);
  void throw_if_any() const;

  std::size_t count() const { return count_; }
  // "configs/a.yaml:12:3" or "command line".
  std::string where(Place place) const;

 private:
  std::vector<std::string> files_;
  std::vector<std::pair<Place, std::string>> lines_;  // the first kMostShown
  std::size_t count_ = 0;
};

// 'text' for a message: one line, control characters as \xNN, cut after 60 bytes.
std::string quoted(std::string_view text);

}  // namespace trireme
