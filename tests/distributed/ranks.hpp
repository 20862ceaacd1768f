// SPDX-License-Identifier: Apache-2.0
// One suite for all kinds of communicators: a test's body runs on every rank of each of them.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "trireme/communicator.hpp"

namespace trireme::testing {

struct Ranks {
  std::string name;  // "local", "threads4", "threads7in3s", "mpi"
  std::function<void(const std::function<void(Communicator&)>& body)> run;
};

inline std::ostream& operator<<(std::ostream& out, const Ranks& ranks) { return out << ranks.name; }

// Without a launcher: one rank alone, and 1 to 7 threads on one node and on several. Under mpirun:
// its ranks.
std::vector<Ranks> all_kinds();

// The communicator of all mpirun's ranks, as main() made it; only under mpirun.
Communicator& mpi_world();

class EveryKind : public ::testing::TestWithParam<Ranks> {
 protected:
  void on_every_rank(const std::function<void(Communicator&)>& body) { GetParam().run(body); }
};

}  // namespace trireme::testing

#define TRIREME_EVERY_KIND(Suite)                                                              \
  INSTANTIATE_TEST_SUITE_P(Kinds, Suite, ::testing::ValuesIn(::trireme::testing::all_kinds()), \
                           [](const auto& kind) { return kind.param.name; })
