// SPDX-License-Identifier: Apache-2.0
// A training state's tensors between memory and checkpoint. Names in a checkpoint: parameters/NAME,
// buffers/NAME, optimizer/SLOT/NAME, compression/SLOT/NAME; logical shapes. Layout of buckets and
// shards leaves no trace, so any world size reads them.
#pragma once

#include <filesystem>
#include <string>

#include "observe/observer.hpp"
#include "parallel/gradient_reduction.hpp"
#include "parallel/sharded_update.hpp"
#include "train/replica.hpp"
#include "train/training_state.hpp"

namespace trireme {

// What has state besides the model.
struct Learner {
  ShardedUpdate& update;
  GradientReduction& reduction;
};

// Collective. Proves that parameters and floating buffers are bitwise equal on all ranks
// (SharedError where not), then rank 0 writes. SharedError (kCheckpoint) where that fails. On ranks
// other than 0 the event holds the step only.
CheckpointEvent save_snapshot(const std::filesystem::path& checkpoints,
                              const StateDocument& document, const Replica& replica,
                              Learner learner, Communicator& communicator);

// Collective. Rank 0 reads `directory`, all ranks get the values. With a learner, its
// state, too; without (evaluation) parameters and buffers only. What a compression keeps is taken
// over so far as the checkpoint has it in the shapes of today, else it starts anew. SharedError
// (kCheckpoint) where the checkpoint does not verify or belongs to another model: then the text has
// a table of names with both shapes.
StateDocument restore_snapshot(const std::filesystem::path& directory, const Replica& replica,
                               const Learner* learner, Communicator& communicator);

}  // namespace trireme
