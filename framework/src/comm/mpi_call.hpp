// SPDX-License-Identifier: Apache-2.0
// The one place that includes mpi.h, and the wrapper around every MPI call. Internal to comm/.
#pragma once

// Without the C++ bindings, which MPI 3.0 removed: they would want another library.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

namespace trireme {

// Throws CommError with the call's name and MPI's text where `code` is not MPI_SUCCESS. Used as
// check_mpi(MPI_Isend(...), "MPI_Isend").
void check_mpi(int code, const char* call);

}  // namespace trireme
