// SPDX-License-Identifier: Apache-2.0
// `trainer verify-resume`: proves on the user's own set-up that a run that was killed and resumed
// ends as one that nobody disturbed.
#pragma once

#include "app/command_line.hpp"
#include "app/launch.hpp"
#include "trireme/registry.hpp"

namespace trireme {

// Three runs of line.steps steps, each started by the words of line.launch: one undisturbed, one
// that is killed (SIGKILL of rank 0) as soon as its first checkpoint is committed, and its
// resumption. Then compares the last checkpoints bit for bit, and all that metrics.jsonl measured.
// Says before each run how many steps it trains. Returns 0 where they are equal; CheckpointError
// (4) lists what is not. Error with the exit code of a run, or of its launcher, that was to succeed
// and failed. EnvironmentError where none could be started; then it leaves nothing. ConfigError
// where this process is one of several ranks: it starts them.
int verify_resume(const CommandLine& line, const Registry& registry, Launch& launch);

}  // namespace trireme
