// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl and metrics.csv: all numbers of a run, for programs. Numbers read back bit for bit.
//
// Note [Which steps are written]
// Steps that are multiples of every_steps, and at the end of a run its last step. At a start,
// events beyond the step where training goes on (StartEvent::step) are removed, so a resumed run
// has no gap and no double. Events of exactly that step stay, but for evaluations that come again
// (StartEvent::evaluation_pending).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "observe/line_file.hpp"
#include "observe/observer.hpp"

namespace trireme {

struct MetricsOptions {
  std::filesystem::path path;
  std::string metric;            // name under which StepEvent::metric and EvalEvent::metric appear
  std::int64_t every_steps = 1;  // >= 1; Note [Which steps are written]
  Warn warn;                     // told the first time that the file cannot be written
};

// Samples a second of one step; 0 for a step without duration.
double samples_per_s(const StepEvent& event);

// What both files have in common.
class MetricsFile : public Observer {
 public:
  void on_step(const StepEvent& event) final;

 protected:
  explicit MetricsFile(const MetricsOptions& options);
  virtual void write_step(const StepEvent& event) = 0;
  void write_left_out();  // the last step, if it was left out

  std::string metric_;
  LineFile file_;

 private:
  std::int64_t every_steps_;
  std::optional<StepEvent> left_out_;
};

// One JSON object a line; "event" is start, step, ranks, eval, checkpoint or end. A number that is
// not finite is null.
class JsonlWriter : public MetricsFile {
 public:
  explicit JsonlWriter(const MetricsOptions& options) : MetricsFile(options) {}
  void on_start(const StartEvent& event) override;
  void on_ranks(const RanksEvent& event) override;
  void on_eval(const EvalEvent& event) override;
  void on_checkpoint(const CheckpointEvent& event) override;
  void on_end(const EndEvent& event) override;

 private:
  void write_step(const StepEvent& event) override;
};

// Steps only, one a row under one header. A number that is not finite is nan, inf or -inf.
class CsvWriter : public MetricsFile {
 public:
  explicit CsvWriter(const MetricsOptions& options) : MetricsFile(options) {}
  void on_start(const StartEvent& event) override;
  void on_end(const EndEvent& event) override;

 private:
  void write_step(const StepEvent& event) override;
};

}  // namespace trireme
