// SPDX-License-Identifier: Apache-2.0
// A training state's tensors in a checkpoint. Names in a checkpoint: parameters/NAME,
// buffers/NAME, optimizer/SLOT/NAME, compression/SLOT/NAME; logical shapes. Layout of buckets and
// shards leaves no trace, so any world size reads them.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/archive.hpp"
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

std::string parameter_path(const std::string& name);
std::string buffer_path(const std::string& name);
std::string slot_path(const std::string& slot, const std::string& name);
std::string compression_path(const std::string& slot, const std::string& name);
ArrayInfo info_of(const std::string& path, const at::Tensor& tensor);
// In host memory; the tensor itself where it lies there like that.
at::Tensor row_major(const at::Tensor& tensor);

// Collective. Rank 0 reads `directory`, all ranks get the values. With a learner, its
// state, too; without (evaluation) parameters and buffers only. What a compression keeps is taken
// over so far as the checkpoint has it in the shapes of today, else it starts anew. SharedError
// (kCheckpoint) where the checkpoint does not verify or belongs to another model: then the text has
// a table of names with both shapes.
StateDocument restore_snapshot(const std::filesystem::path& directory, const Replica& replica,
                               const Learner* learner, Communicator& communicator);

}  // namespace trireme
