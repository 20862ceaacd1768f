// SPDX-License-Identifier: Apache-2.0
// What is said about a run, in words: one line an event, without newline, for console and log
// alike.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "observe/observer.hpp"

namespace trireme {

using SteadyClock = std::function<std::chrono::steady_clock::time_point()>;

class ProgressText {
 public:
  // metric: the name of StepEvent::metric.
  ProgressText(std::string metric, SteadyClock clock);

  std::string start(const StartEvent& event);
  void add(const StepEvent& event);
  bool pending() const { return steps_ > 0; }  // whether steps were added since the last step_line
  // What the user should know at once, the first time it happens.
  std::optional<std::string> warning(const StepEvent& event);
  // Who keeps the others waiting, when that has changed since the last event.
  std::optional<std::string> straggler(const RanksEvent& event);
  // The newest step: its loss, metric and rate; speed and times are means over the steps since the
  // last step_line. Needs a pending step.
  std::string step_line();
  double fraction_done() const;  // of all steps; 0 .. 1
  std::string eval_progress(const EvalProgress& progress) const;
  std::string eval(const EvalEvent& event) const;
  std::string checkpoint(const CheckpointEvent& event) const;
  std::string end(const EndEvent& event) const;

 private:
  std::string remaining_time() const;

  std::string metric_;
  SteadyClock clock_;
  StartEvent start_;
  std::chrono::steady_clock::time_point started_at_;
  StepEvent newest_;
  bool warned_ = false;
  int straggler_ = -1;  // that was last told of
  // Since the last step_line.
  std::int64_t steps_ = 0;
  std::int64_t samples_ = 0;
  double step_ms_ = 0;
  double comm_exposed_ms_ = 0;
};

// What ranks did with their time, a line each under a heading; of more than 16 the latest ones.
std::vector<std::string> rank_table(const RanksEvent& event);

}  // namespace trireme
