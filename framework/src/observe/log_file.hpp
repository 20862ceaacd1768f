// SPDX-License-Identifier: Apache-2.0
// log.txt: the console's plain lines, each after its time, "2025-01-31T12:34:56Z ", kept over
// resumes.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "observe/console.hpp"
#include "observe/line_file.hpp"

namespace trireme {

struct LogFileOptions {
  std::filesystem::path path;
  ConsoleOptions lines;  // terminal and terminal_width do not matter
  Warn warn;             // told the first time that the file cannot be written
  std::function<std::chrono::system_clock::time_point()> clock = [] {
    return std::chrono::system_clock::now();
  };
};

class LogFile : public PlainLines {
 public:
  // Opens the file; what it holds stays.
  explicit LogFile(const LogFileOptions& options);

  void on_ranks(const RanksEvent& event) override;    // with a table of all of them
  void write_line(const std::string& line) override;  // of what others have said, too

 private:
  LineFile file_;
  std::function<std::chrono::system_clock::time_point()> clock_;
};

}  // namespace trireme
