// SPDX-License-Identifier: Apache-2.0
// What a configuration demands of the length of its run, which is known once the data are.
#pragma once

#include <string>

#include "app/session.hpp"

namespace trireme {

// ConfigError where a key would act after the run's last step only.
void require_effect(const Config& config, const RunLength& length);

// A line to warn with where nodes that train apart (parallel.sync_every) meet less than once an
// epoch; "" where all is well.
std::string warning_of_rare_averages(const Config& config, const RunLength& length);

// A line to warn with where a run of some length saves nothing before its end, unless it is asked
// to; "" where it does, or is soon repeated. validated: there is a validation split, the best on
// which is saved.
std::string warning_of_no_checkpoint(const Config& config, const RunLength& length, bool validated);

// Collective, before training. All for a session: SharedError, and warnings on rank 0. apart:
// whether nodes may train apart, here or where the run is meant for.
void check_length(const Session& session, Communicator& world, bool apart);

}  // namespace trireme
