// SPDX-License-Identifier: Apache-2.0
// The wrapper around every MPI call. Internal to comm/.
#pragma once

#include <mpi.h>

namespace trireme {

// Throws CommError with the call's name and MPI's text where `code` is not MPI_SUCCESS. Used as
// check_mpi(MPI_Isend(...), "MPI_Isend").
void check_mpi(int code, const char* call);

}  // namespace trireme
