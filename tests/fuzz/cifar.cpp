// SPDX-License-Identifier: Apache-2.0
// The binary files of CIFAR-10 (each of the five is the input) and CIFAR-100.
#include "fuzz/dataset.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  const std::filesystem::path base = fuzz::folder();
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                           "data_batch_4.bin", "data_batch_5.bin", "train.bin"})
    fuzz::write_file(base / name, {data, size});
  for (const bool any_length : {false, true}) {
    fuzz::read_all(cifar10(), base, {{"any_length", any_length}});
    fuzz::read_all(cifar100(), base, {{"any_length", any_length}});
  }
  return 0;
}
