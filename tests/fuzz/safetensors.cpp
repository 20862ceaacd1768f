// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file; what it says of the bytes behind it has to fit the file.
#include "checkpoint/safetensors.hpp"
#include "fuzz/fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  const std::span<const std::byte> file = std::as_bytes(std::span(data, size));
  fuzz::takes(ExitCode::kCheckpoint, [&] {
    const std::uint64_t begin = safetensors_data_begin(file, size, "file");
    fuzz::require(begin <= size, "the data begin in the file");
    const SafetensorsHeader header =
        parse_safetensors(file.first(static_cast<std::size_t>(begin)), size, "file");
    for (const SafetensorsTensor& tensor : header.tensors)
      fuzz::require(tensor.begin >= begin && tensor.begin <= tensor.end && tensor.end <= size,
                    "each tensor lies in the file");
  });
  return 0;
}
