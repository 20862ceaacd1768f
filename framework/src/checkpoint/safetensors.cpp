// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "trireme/error.hpp"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr std::size_t kLengthBytes = sizeof(std::uint64_t);

std::filesystem::path followed(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path target = std::filesystem::canonical(path, error);
  return error ? path : target;
}

void read_at(const FileDescriptor& file, std::uint64_t offset, std::span<std::byte> data,
             const std::filesystem::path& path) {
  while (!data.empty()) {
    const ssize_t count = ::pread(file.get(), data.data(), data.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_errno("read", path, errno);
    if (count == 0) throw CheckpointError(path.string() + " was cut off while it was read");
    offset += static_cast<std::uint64_t>(count);
    data = data.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path)
    // A link that the user names is followed: a cache of models is full of them.
    : path_(path), file_(open_file(followed(path), O_RDONLY)) {
  const off_t size = ::lseek(file_.get(), 0, SEEK_END);
  if (size < 0) throw_errno("measure", path, errno);
  const auto file_bytes = static_cast<std::uint64_t>(size);
  std::vector<std::byte> start(std::min<std::uint64_t>(file_bytes, kLengthBytes));
  read_at(file_, 0, start, path);
  start.resize(safetensors_data_begin(start, file_bytes, path.string()));
  read_at(file_, 0, start, path);
  header_ = parse_safetensors(start, file_bytes, path.string());
}

void SafetensorsReader::read(const SafetensorsTensor& tensor, std::span<std::byte> data) const {
  TRIREME_ASSERT(data.size() == tensor.size_bytes(), "the buffer fits the tensor");
  read_at(file_, tensor.begin, data, path_);
}

std::string_view safetensors_dtype(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return "U8";
    case DType::kI64:
      return "I64";
    case DType::kF32:
      return "F32";
    case DType::kF64:
      return "F64";
  }
  TRIREME_ASSERT(false, "unknown type");
}

void write_safetensors(OutputFile& file, std::vector<ArrayInfo> arrays,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<void(const ArrayInfo&, std::span<std::byte>)>& read) {
  std::ranges::sort(arrays, {}, [](const ArrayInfo& info) {
    return std::pair(std::numeric_limits<std::size_t>::max() - size_of(info.dtype), info.name);
  });
  Json json = Json::object();
  json[kSafetensorsMetadata] = metadata;
  std::uint64_t offset = 0;
  for (const ArrayInfo& info : arrays) {
    const std::uint64_t end = offset + info.size_bytes();
    json[info.name] = {{"dtype", safetensors_dtype(info.dtype)},
                       {"shape", info.shape},
                       {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string header = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  header.resize((header.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  const std::uint64_t length = header.size();
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(header)));
  std::vector<std::byte> data;
  for (const ArrayInfo& info : arrays) {
    data.resize(info.size_bytes());
    read(info, data);
    file.write(data);
  }
}

}  // namespace trireme
