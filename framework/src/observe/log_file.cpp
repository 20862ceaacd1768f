// SPDX-License-Identifier: Apache-2.0
#include "observe/log_file.hpp"

#include <array>
#include <ctime>
#include <string_view>

#include "trireme/error.hpp"

namespace trireme {
namespace {

// UTC, to the second: "2025-01-31T12:34:56Z"
std::string time_stamp(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  TRIREME_ASSERT(gmtime_r(&seconds, &parts) != nullptr, "a time beyond the calendar");
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace

LogFile::LogFile(const LogFileOptions& options)
    : PlainLines(options.lines), file_(options.path, options.warn), clock_(options.clock) {
  file_.start("", [](std::string_view /*line*/) { return true; });
}

void LogFile::on_ranks(const RanksEvent& event) {
  PlainLines::on_ranks(event);
  for (const std::string& line : rank_table(event)) write_line(line);
}

void LogFile::write_line(const std::string& line) {
  file_.append(time_stamp(clock_()) + " " + line);
}

}  // namespace trireme
