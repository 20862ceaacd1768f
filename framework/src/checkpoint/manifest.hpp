// SPDX-License-Identifier: Apache-2.0
// manifest.json: what a checkpoint consists of, and how to tell that it is unharmed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

struct XXH3_state_s;

namespace trireme {

// Format of model.h5 and of the manifest that is written. A reader takes this one and older ones.
inline constexpr std::int64_t kCheckpointFormat = 2;

inline constexpr const char* kModelFile = "model.h5";
inline constexpr const char* kManifestFile = "manifest.json";

// XXH3-128 of bytes given piece by piece.
class ContentHash {
 public:
  ContentHash();
  void update(std::span<const std::byte> data);
  // 32 lower-case hexadecimal digits, as the tool xxh128sum prints them.
  std::string hex() const;

 private:
  std::unique_ptr<XXH3_state_s, void (*)(XXH3_state_s*)> state_;
};

struct Manifest {
  std::int64_t format = kCheckpointFormat;
  std::int64_t step = 0;
  std::int64_t model_bytes = 0;  // size of model.h5
  std::string model_hash;        // ContentHash::hex of model.h5

  bool operator==(const Manifest&) const = default;
};

// The one text that stands for this manifest.
std::string manifest_text(const Manifest& manifest);

// Takes untrusted bytes; accepts exactly what manifest_text makes, so that any changed byte is
// noticed here or by a comparison with the file it speaks of. Throws CheckpointError that starts
// with `path`.
Manifest parse_manifest(const std::string& text, const std::filesystem::path& path);

// Reads the manifest of this checkpoint directory and compares model.h5 with it: size, then hash.
// Throws CheckpointError.
Manifest verify_files(const std::filesystem::path& directory);

}  // namespace trireme
