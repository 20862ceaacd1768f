// SPDX-License-Identifier: Apache-2.0
// The bytes of a file, in memory once a node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "trireme/communicator.hpp"

namespace trireme {

// Read-only bytes and what keeps them alive. Any thread may read; copies share the memory.
class FileBytes {
 public:
  FileBytes(std::shared_ptr<const void> owner, std::span<const std::byte> bytes)
      : owner_(std::move(owner)), bytes_(bytes) {}
  std::span<const std::byte> bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  std::uint8_t operator[](std::size_t at) const { return static_cast<std::uint8_t>(bytes_[at]); }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
};

// Maps the file: its pages are the system's cache, which all processes share. The file must not be
// made shorter meanwhile (SIGBUS). DataError with the path and the system's reason, ended by `hint`
// (what to do).
FileBytes map_file(const std::string& path, const std::string& hint);

struct GzipOptions {
  std::string path;
  std::string hint;
  std::size_t header_bytes = 0;  // how many bytes `expected_bytes` wants
  // How long the whole is, from its first header_bytes bytes; throws DataError where they are
  // wrong. Memory grows with what is really there, so a false length costs nothing.
  std::function<std::uint64_t(std::span<const std::byte> header)> expected_bytes;
  Communicator* node = nullptr;  // null: this process alone
};

// Collective over the node: its rank 0 decodes, all share the memory. SharedError of a data set
// (ExitCode::kData) on all of them where the file is missing, no gzip file, damaged, shorter or
// longer than expected.
FileBytes gunzip_file(const GzipOptions& options);

}  // namespace trireme
