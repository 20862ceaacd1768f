// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/output_file.hpp"

#include <fcntl.h>

#include <system_error>
#include <utility>

#include "trireme/error.hpp"

namespace trireme {
namespace fs = std::filesystem;

OutputFile::OutputFile(fs::path path, Existing existing)
    : path_(std::move(path)),
      directory_(path_.has_parent_path() ? path_.parent_path() : fs::path(".")),
      temporary_(temporary_path(directory_, path_.filename().string())),
      existing_(existing) {
  require_place();
  remove_tree(temporary_);  // of a former process that had this one's id
  file_ = open_file(temporary_, O_WRONLY | O_CREAT | O_EXCL);
}

OutputFile::~OutputFile() {
  if (committed_) return;
  std::error_code ignored;  // the error that is on its way is the one to report
  fs::remove(temporary_, ignored);
}

void OutputFile::require_place() const {
  std::error_code error;
  const fs::file_type type = fs::symlink_status(path_, error).type();
  if (type == fs::file_type::not_found) return;
  if (error) throw_errno("inspect", path_, error.value());
  if (type == fs::file_type::directory) {
    throw CheckpointError(path_.string() + " is a directory; expected the name of a file to write");
  }
  if (existing_ == Existing::kRefuse) {
    throw CheckpointError(path_.string() + " exists already; choose another name, or replace it " +
                          "with --force");
  }
}

void OutputFile::write(std::span<const std::byte> data) { write_all(file_, data, temporary_); }

void OutputFile::commit() {
  sync_file(file_, temporary_);
  file_.close(temporary_);
  require_place();  // it may have been taken meanwhile
  rename_path(temporary_, path_);
  committed_ = true;
  sync_directory(directory_);
}

}  // namespace trireme
