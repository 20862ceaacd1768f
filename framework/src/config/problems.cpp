// SPDX-License-Identifier: Apache-2.0
#include "config/problems.hpp"

#include <algorithm>
#include <tuple>

#include "base/text.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

// A text of nothing but errors must not cost minutes and megabytes.
constexpr std::size_t kMostShown = 50;

}  // namespace

Problems::Problems(std::string_view file) : files_{printable(file)} {}

int Problems::add_file(std::string_view file) {
  files_.push_back(printable(file));
  return static_cast<int>(files_.size()) - 1;
}

std::string Problems::where(Place place) const {
  if (place.line == 0) return "command line";
  const std::string& file = files_[static_cast<std::size_t>(place.file)];
  return file + ":" + std::to_string(place.line) + ":" + std::to_string(place.column);
}

void Problems::add(Place place, std::string_view key, std::string_view text) {
  ++count_;
  if (lines_.size() >= kMostShown) return;
  std::string line = where(place) + ": ";
  if (!key.empty()) line += printable(key.substr(0, 120)) + ": ";
  lines_.emplace_back(place, line.append(text));
}

void Problems::fail(Place place, std::string_view key, std::string_view text) {
  add(place, key, text);
  throw_if_any();
  throw InternalError("Problems::fail lost its problem");
}

void Problems::throw_if_any() const {
  if (count_ == 0) return;
  auto sorted = lines_;
  // The order of the files, the command line last.
  std::ranges::stable_sort(sorted, {}, [](const auto& line) {
    const Place& place = line.first;
    return std::tuple(place.line == 0, place.file, place.line, place.column);
  });
  std::string message;
  for (const auto& [place, line] : sorted) message += (message.empty() ? "" : "\n") + line;
  if (count_ > lines_.size()) {
    message +=
        "\n" + files_.front() + ": and " + std::to_string(count_ - lines_.size()) + " more errors";
  }
  throw ConfigError(message);
}

std::string quoted(std::string_view text) {
  constexpr std::size_t kMost = 60;
  if (text.size() <= kMost) return "'" + printable(text) + "'";
  std::size_t end = kMost;
  // Not inside a UTF-8 character.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return "'" + printable(text.substr(0, end)) + "...'";
}

}  // namespace trireme
