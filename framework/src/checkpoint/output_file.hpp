// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "base/files.hpp"

namespace trireme {

enum class Existing { kRefuse, kReplace };

// A file that is made as a whole or not at all, for contents that do not fit into memory: written
// under a temporary name beside it, then fsync, rename, fsync of the directory. The destructor
// without commit() removes the temporary. Throws CheckpointError with path and errno.
class OutputFile {
 public:
  // Existing::kRefuse: an error where the path is taken. A directory is never replaced; of a
  // symbolic link it is the link itself that is.
  OutputFile(std::filesystem::path path, Existing existing);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> data);
  void commit();  // once

 private:
  void require_place() const;

  std::filesystem::path path_, directory_, temporary_;
  Existing existing_;
  FileDescriptor file_;
  bool committed_ = false;
};

}  // namespace trireme
