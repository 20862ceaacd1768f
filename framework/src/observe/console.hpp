// SPDX-License-Identifier: Apache-2.0
// What a person sees of a run: plain lines in a pipe or a file, a progress line on a terminal.
#pragma once

#include <chrono>
#include <cstddef>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>

#include "observe/progress_text.hpp"

namespace trireme {

struct ConsoleOptions {
  std::string metric;     // name of StepEvent::metric
  double seconds = 5;     // at most one plain line of progress in this time; 0: every step
  bool terminal = false;  // a progress line that is redrawn in place
  std::size_t terminal_width = 80;  // columns
  SteadyClock clock = [] { return std::chrono::steady_clock::now(); };
};

// Plain lines: start, the first step at once, then steps, and how far an evaluation is, at most
// every so many seconds, the last step, and every evaluation, checkpoint and end. No carriage
// return, no colour. Where lines go is the derived class's.
class PlainLines : public Observer {
 public:
  explicit PlainLines(const ConsoleOptions& options);
  void on_start(const StartEvent& event) override;
  void on_step(const StepEvent& event) override;
  void on_ranks(const RanksEvent& event) override;
  void on_eval_progress(const EvalProgress& progress) override;
  void on_eval(const EvalEvent& event) override;
  void on_checkpoint(const CheckpointEvent& event) override;
  void on_end(const EndEvent& event) override;

 private:
  virtual void write_line(const std::string& line) = 0;
  void write_step();
  bool line_is_due() const;

  ProgressText text_;
  std::chrono::duration<double> interval_;
  SteadyClock clock_;
  std::optional<std::chrono::steady_clock::time_point> last_line_;  // of progress
};

// The console of a run on rank 0, on a stream that outlives it. Each line is flushed.
std::unique_ptr<Observer> make_console(std::ostream& stream, const ConsoleOptions& options);

}  // namespace trireme
