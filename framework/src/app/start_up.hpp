// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "app/environment.hpp"
#include "app/launch.hpp"
#include "app/rank_device.hpp"
#include "config/config.hpp"

namespace trireme {

struct Started {
  Environment environment;
  RankDevice device;
};

// Collective. What every command that computes does first: the time-out, threads, the device and a
// survey of what the ranks run on, of which rank 0 tells. wish: what run.device says, or cpu where
// nothing is computed. SharedError.
Started start_up(Launch& launch, const Config& config, const std::string& wish);

}  // namespace trireme
