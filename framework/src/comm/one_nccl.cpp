// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl.hpp"
#include "trireme/error.hpp"

namespace trireme {

void require_one_nccl(const NcclLibrary& library, const std::string& torch_header) {
  if (library.path != library.torch_path) {
    throw EnvironmentError("two NCCL libraries are in this process: Trireme calls " + library.path +
                           ", LibTorch calls " +
                           (library.torch_path.empty() ? "none" : library.torch_path) +
                           "; take the other one out of LD_LIBRARY_PATH and LD_PRELOAD");
  }
  if (library.header == library.running && torch_header == library.running) return;
  throw EnvironmentError("NCCL " + library.running + " is loaded (" + library.path +
                         "), but Trireme was built with " + library.header + " and LibTorch with " +
                         torch_header +
                         "; let the loader find LibTorch's own (LD_LIBRARY_PATH), or build Trireme "
                         "again with -DNccl_INCLUDE_DIR and -DNccl_LIBRARY of that version");
}

}  // namespace trireme
