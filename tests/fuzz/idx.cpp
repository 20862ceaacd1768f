// SPDX-License-Identifier: Apache-2.0
// IDX files of images and labels, plain or .gz. Byte 0: which of the two are .gz (bits 0 and 1);
// bytes 1 and 2: how many of the bytes that follow are the labels, the rest are the images.
#include "fuzz/dataset.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  if (size < 3) return 0;
  const std::size_t labels = std::min<std::size_t>(data[1] * 256U + data[2], size - 3);
  const std::span<const std::uint8_t> bytes(data + 3, size - 3);
  for (const auto& entry : std::filesystem::directory_iterator(fuzz::folder()))
    std::filesystem::remove(entry.path());
  const std::filesystem::path base = fuzz::folder();
  const char* const ending[] = {"", ".gz"};
  fuzz::write_file(base / (std::string("train-labels-idx1-ubyte") + ending[data[0] & 1U]),
                   bytes.first(labels));
  fuzz::write_file(base / (std::string("train-images-idx3-ubyte") + ending[data[0] >> 1 & 1U]),
                   bytes.subspan(labels));
  fuzz::read_all(idx(), base);
  return 0;
}
