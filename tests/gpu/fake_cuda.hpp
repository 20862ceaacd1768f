// SPDX-License-Identifier: Apache-2.0
// A fake of the calls of CUDA and NCCL that comm/ makes, for machines without a GPU: it proves what
// comm/ does with them, never that CUDA and NCCL do what the fake does. Linked into a test, its
// functions stand before those of the libraries.
//
// Ranks are threads, each with the device of its number. Device memory is host memory. A stream is
// a thread that works off what it is given, in order; the default stream is the calling thread.
// NCCL sums in rank order, answers "in progress" to everything at first, and never waits for ranks
// but on a stream.
#pragma once

#include <nccl.h>

namespace trireme::testing {

// What ncclCommGetAsyncError says from now on of groups of this device; ncclSuccess ends it.
void fake_async_error(int device, ncclResult_t error);

// How many groups were aborted since the program began.
int num_fake_aborts();

}  // namespace trireme::testing
