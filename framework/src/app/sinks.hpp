// SPDX-License-Identifier: Apache-2.0
// Rank 0's observers: console, log, metrics files, and the run's state file.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/run_directory.hpp"
#include "config/config.hpp"
#include "observe/observer_list.hpp"

namespace trireme {

// state.json: where the run stands, for people and scripts: status (running, finished, early_stop,
// stopped, failed), step (when it was written), total_steps, checkpoint, reason. Written at the
// start, after each checkpoint and at the end.
class StateFile : public Observer {
 public:
  // checkpoint: what the run goes on from, or empty.
  StateFile(const RunDirectory& directory, std::string checkpoint)
      : directory_(directory), checkpoint_(std::move(checkpoint)) {}
  void on_start(const StartEvent& event) override;
  void on_step(const StepEvent& event) override;
  void on_checkpoint(const CheckpointEvent& event) override;
  void on_end(const EndEvent& event) override;
  void fail(const std::string& reason);

 private:
  void write(const std::string& status, const std::string& reason) const;

  const RunDirectory& directory_;
  std::int64_t step_ = 0, total_steps_ = 0;
  std::string checkpoint_;
};

struct SinkOptions {
  std::string checkpoint;           // what the run goes on from, or empty
  bool plain = false;               // lines only, even on a terminal (mpirun gives its ranks one,
                                    // whatever it writes to itself)
  std::vector<std::string> before;  // lines that the log begins with
  // What was warned of on other threads since it was last asked, for the log.
  std::function<std::vector<std::string>()> warnings = [] { return std::vector<std::string>(); };
};

class Sinks {
 public:
  // On rank 0, once, when nothing can keep the run from starting any more; others say and write
  // nothing. directory must outlive this.
  void open(const Config& config, const RunDirectory& directory, const SinkOptions& options);

  Observer& observer() { return observers_; }
  void fail(const std::string& reason);  // the run ends with an error

 private:
  class WarningLog;

  ObserverList observers_;
  StateFile* state_ = nullptr;  // in observers_
  WarningLog* log_ = nullptr;   // in observers_
};

void warn(const std::string& text);  // "trireme: warning: ..." to stderr

}  // namespace trireme
