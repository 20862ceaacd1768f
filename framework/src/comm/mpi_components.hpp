// SPDX-License-Identifier: Apache-2.0
// What Open MPI is made of, seen through MPI's tool interface (MPI_T): it has control variables of
// each component that is open, and of no other once MPI has started. Internal to the MPI
// communicator.
#pragma once

#include <string>
#include <vector>

namespace trireme {

struct MpiComponents {
  std::vector<std::string> pml;  // what carries point-to-point messages: ob1, ucx, cm
  std::vector<std::string> btl;  // what ob1 moves bytes with: tcp, vader, self
  std::vector<std::string> mtl;  // what cm moves them with: ofi, psm2
};

// Before MPI_Init: what is installed. After it: what was chosen (btl and mtl are open whoever uses
// them). All empty where the library is not Open MPI. Not beside other MPI calls.
MpiComponents mpi_components();

// "ob1 (self, tcp, vader)", "ucx", "cm (ofi)"; "" where nothing is known. Of the chosen ones.
std::string transport_text(const MpiComponents& components);

}  // namespace trireme
