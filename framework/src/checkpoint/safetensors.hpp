// SPDX-License-Identifier: Apache-2.0
// The format safetensors (https://github.com/huggingface/safetensors#format): 8 bytes that hold the
// length of a JSON header, little-endian; the header, which says name, type, shape and place of
// each tensor; then their bytes, row-major, little-endian. All errors are CheckpointError, and name
// file and field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.hpp"
#include "checkpoint/archive.hpp"
#include "checkpoint/output_file.hpp"

namespace trireme {

// The header's key for texts about the file.
inline constexpr const char* kSafetensorsMetadata = "__metadata__";

struct SafetensorsTensor {
  std::string name;
  std::string dtype;  // one of the format's names, of whole bytes: "F32", "BF16"
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes of the file

  std::size_t size_bytes() const { return static_cast<std::size_t>(end - begin); }
};

struct SafetensorsHeader {
  std::vector<SafetensorsTensor> tensors;  // by name
  std::map<std::string, std::string> metadata;
};

// Of a file of file_bytes bytes that starts with `start`, which has the whole header: where its
// data begin. Untrusted bytes; at most 16 MiB of header. `where` names the file in errors.
std::uint64_t safetensors_data_begin(std::span<const std::byte> start, std::uint64_t file_bytes,
                                     const std::string& where);
// The same, and the header. What it returns is consistent: known types, each tensor as many bytes
// as its shape and type say, all of them together the file's data without gap or overlap.
SafetensorsHeader parse_safetensors(std::span<const std::byte> start, std::uint64_t file_bytes,
                                    const std::string& where);

class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::filesystem::path& path);

  const SafetensorsHeader& header() const { return header_; }
  // data has tensor.size_bytes() bytes; tensor is one of header().tensors.
  void read(const SafetensorsTensor& tensor, std::span<std::byte> data) const;

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  SafetensorsHeader header_;
};

// "F32" of kF32.
std::string_view safetensors_dtype(DType dtype);

// Writes all of it but the commit. Tensors lie in the order of element size, largest first, then of
// names, so that each is aligned to its elements. read is called once an array, in that order.
// Names of arrays become names of tensors as they are.
void write_safetensors(OutputFile& file, std::vector<ArrayInfo> arrays,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<void(const ArrayInfo&, std::span<std::byte>)>& read);

}  // namespace trireme
