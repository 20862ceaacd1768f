// SPDX-License-Identifier: Apache-2.0
// A training state's tensors between memory and checkpoint. Names in a checkpoint: parameters/NAME,
// buffers/NAME, optimizer/SLOT/NAME; logical shapes. Layout of buckets and shards leaves no trace,
// so any world size reads them.
#pragma once

#include <filesystem>
#include <string>

#include "observe/observer.hpp"
#include "parallel/sharded_update.hpp"
#include "train/replica.hpp"
#include "train/training_state.hpp"

namespace trireme {

// Collective. Proves that parameters and floating buffers are bitwise equal on all ranks
// (SharedError where not), then rank 0 writes. SharedError (kCheckpoint) where that fails. On ranks
// other than 0 the event holds the step only.
CheckpointEvent save_snapshot(const std::filesystem::path& checkpoints,
                              const StateDocument& document, const Replica& replica,
                              ShardedUpdate& update, Communicator& communicator);

// Collective. Rank 0 reads `directory`, all ranks get the values. With `update`, the optimizer's
// state, too; without it (evaluation) parameters and buffers only. SharedError (kCheckpoint) where
// the checkpoint does not verify or belongs to another model: then the text has a table of names
// with both shapes.
StateDocument restore_snapshot(const std::filesystem::path& directory, const Replica& replica,
                               ShardedUpdate* update, Communicator& communicator);

}  // namespace trireme
