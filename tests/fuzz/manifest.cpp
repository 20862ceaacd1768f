// SPDX-License-Identifier: Apache-2.0
// The manifest of a checkpoint.
#include "checkpoint/manifest.hpp"
#include "fuzz/fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  const std::string text = fuzz::text_of({data, size});
  fuzz::takes(ExitCode::kCheckpoint, [&] {
    fuzz::require(manifest_text(parse_manifest(text, "manifest.json")) == text,
                  "what is accepted is, byte for byte, what is written");
  });
  return 0;
}
