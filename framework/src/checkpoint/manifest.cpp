// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/manifest.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/files.hpp"
#include "base/text.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
namespace {

constexpr const char* kFormatName = "trireme-checkpoint";

std::string hash_file(const FileDescriptor& file, const fs::path& path) {
  constexpr std::size_t kBlock = std::size_t{64} << 10;
  std::vector<std::byte> block(kBlock);
  ContentHash hash;
  while (true) {
    const ssize_t count = ::read(file.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_errno("read", path, errno);
    if (count == 0) return hash.hex();
    hash.update(std::span(block).first(static_cast<std::size_t>(count)));
  }
}

}  // namespace

ContentHash::ContentHash()
    : state_(XXH3_createState(), [](XXH3_state_s* state) { XXH3_freeState(state); }) {
  if (!state_ || XXH3_128bits_reset(state_.get()) != XXH_OK) {
    throw CheckpointError("no memory for a hash state");
  }
}

void ContentHash::update(std::span<const std::byte> data) {
  const XXH_errorcode code = XXH3_128bits_update(state_.get(), data.data(), data.size());
  TRIREME_ASSERT(code == XXH_OK, "XXH3 refused its input");
}

std::string ContentHash::hex() const {
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, XXH3_128bits_digest(state_.get()));
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes.digest) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

std::string manifest_text(const Manifest& manifest) {
  const Json file = {{"name", kModelFile},
                     {"size_bytes", manifest.model_bytes},
                     {"xxh3_128", manifest.model_hash}};
  const Json json = {{"format", kFormatName},
                     {"version", manifest.format},
                     {"step", manifest.step},
                     {"files", Json::array({file})}};
  constexpr int kIndent = 2;
  return json.dump(kIndent, ' ', false, Json::error_handler_t::replace) + "\n";
}

Manifest parse_manifest(const std::string& text, const fs::path& path) {
  const auto fail = [&](const std::string& why) {
    throw CheckpointError(path.string() + ": " + why);
  };
  // Not a fraction: those beyond the integers have no meaning as one.
  const auto integer = [&](const Json& value) {
    if (!value.is_number_integer()) fail("a number in it is no whole number; it is damaged");
    return value.get<std::int64_t>();
  };
  try {
    const Json json = Json::parse(text);
    if (json.at("format") != kFormatName) fail("not the manifest of a Trireme checkpoint");
    const auto version = integer(json.at("version"));
    if (version > kCheckpointFormat) {
      fail("format " + std::to_string(version) +
           " was written by a newer Trireme; this one reads " + "up to format " +
           std::to_string(kCheckpointFormat));
    }
    if (version < 1) fail("it is damaged or was edited");
    const Json& file = json.at("files").at(0);
    const Manifest manifest{.format = version,
                            .step = integer(json.at("step")),
                            .model_bytes = integer(file.at("size_bytes")),
                            .model_hash = file.at("xxh3_128").get<std::string>()};
    if (manifest_text(manifest) != text) fail("it is damaged or was edited");
    return manifest;
  } catch (const Json::exception& error) {
    fail("not the manifest of a Trireme checkpoint: " + printable(error.what()));
  }
  throw InternalError("not reached");
}

Manifest verify_files(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    throw CheckpointError(directory.string() + " is not a checkpoint: expected a directory with " +
                          kManifestFile + " and " + kModelFile);
  }
  constexpr std::size_t kManifestLimit = 65536;
  const fs::path manifest_path = directory / kManifestFile;
  const Manifest manifest = parse_manifest(read_file(manifest_path, kManifestLimit), manifest_path);
  const fs::path model = directory / kModelFile;
  const FileDescriptor file = open_file(model, O_RDONLY);
  const off_t size = ::lseek(file.get(), 0, SEEK_END);
  if (size < 0 || ::lseek(file.get(), 0, SEEK_SET) != 0) throw_errno("measure", model, errno);
  if (size != manifest.model_bytes) {
    throw CheckpointError(model.string() + " is damaged: it has " + std::to_string(size) +
                          " bytes, its manifest says " + std::to_string(manifest.model_bytes));
  }
  const std::string hash = hash_file(file, model);
  if (hash != manifest.model_hash) {
    throw CheckpointError(model.string() + " is damaged: its XXH3-128 is " + hash +
                          ", its manifest says " + manifest.model_hash);
  }
  return manifest;
}

}  // namespace trireme
