// SPDX-License-Identifier: Apache-2.0
// How a rank uses its cores and memory.
#pragma once

#include <string>

namespace trireme {

// Threads one rank computes with: OMP_NUM_THREADS where set, else available_cores()
// (base/cores.hpp). Tells torch; call it once, before the first torch operation. EnvironmentError
// where OMP_NUM_THREADS is no number from 1 to 1024.
int use_threads();

// Keeps freed memory in the process: glibc otherwise returns large blocks to the kernel in every
// step, and the next step faults them in again. Call it first in main.
void keep_memory();
// Gives what the allocator holds and nobody uses back to the system, in spite of keep_memory().
void return_free_memory();

// The vector instruction set that torch's kernels use: part of what makes results repeatable
// ("AVX512").
std::string instruction_set();

std::string torch_version();

}  // namespace trireme
