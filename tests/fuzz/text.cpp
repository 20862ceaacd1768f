// SPDX-License-Identifier: Apache-2.0
// A file as tokens; the first byte chooses the length of a sample.
#include "fuzz/dataset.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  if (size < 1) return 0;
  const std::filesystem::path path = fuzz::folder() / "text";
  fuzz::write_file(path, {data + 1, size - 1});
  for (const double test_fraction : {0.0, 0.1, 1.0}) {
    fuzz::read_all(text(), path,
                   {{"context", std::int64_t{1} + data[0]}, {"test_fraction", test_fraction}});
  }
  return 0;
}
