// SPDX-License-Identifier: Apache-2.0
// What the fuzz targets share. A target is libFuzzer's one function; linked with replay.cpp it is a
// plain program that runs it on the files that it is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

#include "support/temporary_directory.hpp"
#include "trireme/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace trireme::fuzz {

// Whatever the bytes are, body takes them or refuses them with this code and a line that a terminal
// can show. Anything else it throws (an assertion, no memory) ends the program, as a finding.
template <class Body>
bool takes(ExitCode refusal, const Body& body) {
  try {
    body();
    return true;
  } catch (const Error& error) {
    const std::string_view text = error.what();
    bool shown = !text.empty();
    for (const char c : text) shown = shown && (c == '\n' || static_cast<unsigned char>(c) >= 0x20);
    if (error.code() == refusal && shown) return false;
    std::fprintf(stderr, "not a refusal: code %d, '%s'\n", static_cast<int>(error.code()),
                 error.what());
    std::abort();
  }
}

inline void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::abort();
}

inline std::string text_of(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A folder of this process, in memory where that can be.
inline const std::filesystem::path& folder() {
  static const test::TemporaryDirectory directory;
  return directory.path();
}

inline void write_file(const std::filesystem::path& path, std::span<const std::uint8_t> bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  require(file.flush().good(), "the input can be written to a file");
}

}  // namespace trireme::fuzz
