// SPDX-License-Identifier: Apache-2.0
// What may change between a run and its continuation.
#pragma once

#include <string>
#include <vector>

#include "config/read.hpp"

namespace trireme {

// Throws ConfigError that lists every change (old -> new) that would change the mathematics or the
// data: anything but the run's length, its cadences of evaluation, saving and logging, its
// patience, its time-out, and how its input is decoded.
void require_resumable(const Config& before, const Config& after);

// Whether the schedule spans the run's length, and that has changed.
bool stretches_schedule(const Config& before, const Config& after);

// What to warn of where a run goes on with another number of nodes than before (0: not known) and
// `key` acts between nodes (empty: none does); empty: nothing.
std::string warning_of_nodes(int before, int now, const std::string& key);

// ConfigError unless both hold out the same samples for validation.
void require_same_split(const Config& trained, const Config& now);

}  // namespace trireme
