// SPDX-License-Identifier: Apache-2.0
// What a run will take, before it starts: for --dry-run.
#pragma once

#include <cstdint>
#include <string>

#include "app/session.hpp"

namespace trireme {

struct Estimate {
  std::int64_t trained_parameters = 0, frozen_parameters = 0;
  std::int64_t memory_bytes =
      0;  // a rank: parameters, gradients, optimizer shard; without activations
  std::int64_t checkpoint_bytes = 0;  // one checkpoint on disk
  RunLength length;
};

Estimate estimate(const Session& session, int world_size);
std::string to_text(const Estimate& estimate, const Session& session, int world_size);

// "1.25 GB", "310 kB": powers of 1000.
std::string human_bytes(std::int64_t bytes);

}  // namespace trireme
