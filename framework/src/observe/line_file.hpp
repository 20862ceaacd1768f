// SPDX-License-Identifier: Apache-2.0
// A text file that grows line by line and survives kills, resumes and full disks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/files.hpp"

namespace trireme {

// Never throws for what the disk does: the first failure is told to warn, and training goes on. A
// line that could not be written is left out as a whole; later ones are tried again.
class LineFile {
 public:
  LineFile(std::filesystem::path path, Warn warn);

  // Opens the file, which then holds `head` and, of the lines that it held, those that are whole
  // and for which keep is true. Replaced atomically; a file that cannot be cleaned so is not
  // written to at all.
  void start(std::string_view head, const std::function<bool(std::string_view line)>& keep);
  // line has no newline; it is written, with one, by one write(2). Nothing before start().
  void append(const std::string& line);

 private:
  void warn_once(const std::string& reason);

  std::filesystem::path path_;
  Warn warn_;
  FileDescriptor file_;
  std::int64_t size_bytes_ = 0;  // of whole lines
  bool warned_ = false;
};

}  // namespace trireme
