// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi_call.hpp"

#include <array>
#include <string>

#include "trireme/error.hpp"

namespace trireme {

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text = {};
  int length = 0;
  std::string reason = "error " + std::to_string(code);
  if (MPI_Error_string(code, text.data(), &length) == MPI_SUCCESS) {
    reason.assign(text.data(), static_cast<std::size_t>(length));
  }
  int error_class = MPI_SUCCESS;
  if (MPI_Error_class(code, &error_class) == MPI_SUCCESS && error_class == MPI_ERR_TRUNCATE)
    reason += "; all ranks must call the same with the same count, dtype, offsets and root";
  throw CommError(std::string(call) + " failed: " + reason);
}

}  // namespace trireme
