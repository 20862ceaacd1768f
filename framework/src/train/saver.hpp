// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a run: taken between two steps, written behind the next ones.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "checkpoint/background_writer.hpp"
#include "observe/observer.hpp"
#include "train/snapshot_image.hpp"

namespace trireme {

struct SaverOptions {
  std::filesystem::path checkpoints;     // the folder
  std::int64_t keep = 1;                 // as rotate_checkpoints()
  std::chrono::milliseconds timeout{0};  // of a write that does not come on; <= 0: for ever
  std::int64_t most = 1;  // checkpoints that may ever lie there at once: there has to be room
};

class Saver {
 public:
  // Collective; takes the memory and looks for room on the disk. Replica and learner must outlive
  // this. like: a state text of a later checkpoint is at most a little longer. SharedError where
  // there is not enough memory (kEnvironment) or room (kCheckpoint).
  Saver(SaverOptions options, const Replica& replica, Learner learner, const StateDocument& like,
        Communicator& control);

  // Rank 0's. The run goes on from this checkpoint of the folder; later ones are doubtful.
  void resume_from(std::int64_t step) { writer_.resume_from(step); }

  // Collective. Waits for the checkpoint that is being written, if any, as finish() does; then
  // takes this one. It is on its way when this returns: training may go on.
  void save(const StateDocument& document, bool best);
  // Collective. Waits until nothing is being written, as long as it comes on. SharedError
  // (kCheckpoint) where it failed. CheckpointError, on rank 0 alone, where it hangs: its thread
  // cannot be ended, so the job has to be.
  void finish();
  // Whether this rank knows of a failure to write. All ranks are to call finish() then, once they
  // have agreed.
  bool failed() const { return writer_.failed(); }
  // Collective: as finish() for a run that ends by another error. A write that fails is not told.
  void settle();
  // Rank 0's: the checkpoints committed since the last call.
  std::vector<CheckpointEvent> take_events();

 private:
  void wait_for_writer();
  void note_outcome();

  const std::chrono::milliseconds timeout_;
  Communicator& control_;
  SnapshotImage image_;
  std::vector<CheckpointEvent> events_;            // committed
  CheckpointEvent current_;                        // being written
  std::chrono::steady_clock::time_point started_;  // when its save() began
  BackgroundWriter writer_;                        // last: it reads the image until it has ended
};

}  // namespace trireme
