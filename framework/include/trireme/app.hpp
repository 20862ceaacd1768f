// SPDX-License-Identifier: Apache-2.0
// The whole program as one call: for a trainer with own models or data sets.
//
// clang-format off
//   int main(int argc, char** argv) {
//     trireme::Registry registry = trireme::builtin();
//     registry.add(trireme::ModelEntry{
//         "my_net", "What it is.", {}, [](auto&, auto&) { return std::make_shared<MyNet>(); }});
//     return trireme::run(argc, argv, registry);
//   }
// clang-format on
//
// add_models(registry) of trireme/models.hpp adds the models that come with Trireme.
#pragma once

#include "trireme/registry.hpp"

namespace trireme {

// Trireme's own data sets, losses and metrics.
Registry builtin();

// Parses the command line, sets up MPI if a launcher started this process, runs the command and
// returns the exit code (error.hpp). Prints errors itself; never throws. Call it once, from main,
// before anything else uses MPI or torch.
int run(int argc, char** argv, const Registry& registry);

}  // namespace trireme
