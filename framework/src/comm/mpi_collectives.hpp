// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "comm/mpi_operation.hpp"

namespace trireme {

// How this call moves its data in a group of `size` ranks. The algorithms are our own, of plain
// messages: MPI's choose the order of their sums by themselves.
//  * reduce_scatter: every rank sends each owner its part; the owner sums in rank order. One
//    rounding an addition, and bytes moved are minimal.
//  * all_gather: every owner sends its part to all.
//  * all_reduce: both, with even parts; up to gather_limit_bytes all data to all ranks instead.
//  * broadcast: a binomial tree.
//  * exchange: lengths to all, then texts to all. barrier: an empty message to all.
std::vector<MpiOperation::Stage> stages_of(const Call& call, int size,
                                           std::size_t gather_limit_bytes);

}  // namespace trireme
