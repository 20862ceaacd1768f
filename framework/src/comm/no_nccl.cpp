// SPDX-License-Identifier: Apache-2.0
// In place of nccl.cpp and its parts where CUDA is not built in.
#include "comm/nccl.hpp"
#include "trireme/error.hpp"

namespace trireme {

std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<Communicator>,
                                                     const NcclOptions&) {
  throw EnvironmentError(
      "this program was built without NCCL; build one that has it with cmake --preset "
      "cuda-release");
}

NcclLibrary nccl_library() { return {}; }

}  // namespace trireme
