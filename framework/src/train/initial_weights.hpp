// SPDX-License-Identifier: Apache-2.0
// Weights that a new run starts from (model.init_from), instead of those that its seed draws.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "train/replica.hpp"

namespace trireme {

struct InitialWeights {
  std::string path;
  std::int64_t arrays = 0;  // parameters and buffers that were taken over
  std::string hash;  // XXH3-128 over name and bytes of each, in the model's order; checked: ""
  std::string text;  // lines for the user: what was taken over, converted, and left out
};

enum class Fit {
  kStrict,  // parameters and buffers of both have the same names, shapes and types
  kPartial  // what has the same name and shape is taken over, at least one
};

// path: a checkpoint or a .safetensors file. Numbers of f16 and bf16, which Trireme does not train
// in, become the model's type under both fits; f32 and f64 become each other with kPartial. Throws
// CheckpointError with a table of names, both types and both shapes where the fit is not met; then
// nothing has changed. Rank 0 alone; start_equal hands the values on.
InitialWeights load_initial_weights(const std::filesystem::path& path, Fit fit,
                                    const Replica& replica);
// The same without changing a value.
InitialWeights check_initial_weights(const std::filesystem::path& path, Fit fit,
                                     const Replica& replica);

}  // namespace trireme
