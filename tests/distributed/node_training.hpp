// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/communicator.hpp"

namespace trireme::test {

// Collective over ranks of MPI. Trains with what acts between nodes (compression, local SGD, shards
// over the world, updates inside backward), each rank late now and then, and compares losses and
// checkpoints with those of as many threads with the same placement, bit for bit. False on rank 0
// where they differ, after it has said where.
bool trains_as_threads_do(Communicator& world);

}  // namespace trireme::test
