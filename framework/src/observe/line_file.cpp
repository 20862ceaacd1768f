// SPDX-License-Identifier: Apache-2.0
#include "observe/line_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

#include "base/inject.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

std::string kept_lines(const std::string& text, std::string_view head,
                       const std::function<bool(std::string_view)>& keep) {
  std::string kept(head);
  std::size_t begin = 0;
  // What follows the last newline was torn off by a kill.
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    if (keep(line)) kept.append(line).push_back('\n');
    begin = end + 1;
  }
  return kept;
}

}  // namespace

LineFile::LineFile(std::filesystem::path path, Warn warn)
    : path_(std::move(path)), warn_(std::move(warn)) {}

void LineFile::start(std::string_view head, const std::function<bool(std::string_view)>& keep) {
  constexpr std::size_t kLimit = std::size_t{4} << 30;
  try {
    std::error_code absent;  // a file that cannot be looked at cannot be opened below either
    const bool exists = std::filesystem::exists(symlink_status(path_, absent));
    const std::string before = exists ? read_file(path_, kLimit) : "";
    const std::string after = kept_lines(before, head, keep);
    if (after != before) replace_file(path_, after);
    file_ = open_file(path_, O_WRONLY | O_APPEND | O_CREAT);
    size_bytes_ = static_cast<std::int64_t>(after.size());
  } catch (const CheckpointError& error) {
    warn_once(error.what());
  }
}

void LineFile::append(const std::string& line) {
  if (file_.get() < 0) return;
  const std::string text = line + "\n";
  try {
    fault_point(FaultPoint::kLogWrite);
    write_all(file_, std::as_bytes(std::span(text)), path_);
    size_bytes_ += static_cast<std::int64_t>(text.size());
  } catch (const CheckpointError& error) {
    warn_once(error.what());
    // No half line may precede the next one; where even that fails, no further lines are written.
    if (::ftruncate(file_.get(), size_bytes_) != 0) file_ = FileDescriptor();
  }
}

void LineFile::warn_once(const std::string& reason) {
  if (!std::exchange(warned_, true)) {
    warn_(reason + "; lines will be missing there, training goes on");
  }
}

}  // namespace trireme
