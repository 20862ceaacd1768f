// SPDX-License-Identifier: Apache-2.0
#include "observe/console.hpp"

#include <algorithm>
#include <ostream>
#include <utility>

namespace trireme {
namespace {

class PlainConsole : public PlainLines {
 public:
  PlainConsole(std::ostream& stream, const ConsoleOptions& options)
      : PlainLines(options), stream_(stream) {}

 private:
  void write_line(const std::string& line) override { stream_ << line << '\n' << std::flush; }

  std::ostream& stream_;
};

// Keeps one line at the bottom that shows the newest step; other lines scroll above it.
class TerminalConsole : public Observer {
 public:
  TerminalConsole(std::ostream& stream, const ConsoleOptions& options)
      : stream_(stream),
        text_(options.metric, options.clock),
        // The last column stays free: a full line would wrap.
        width_(std::max<std::size_t>(options.terminal_width, 2) - 1),
        clock_(options.clock) {}

  void on_start(const StartEvent& event) override { write_above(text_.start(event)); }
  void on_step(const StepEvent& event) override {
    text_.add(event);
    if (const auto warning = text_.warning(event)) write_above(*warning);
    if (redraw_is_due()) draw();
  }
  void on_ranks(const RanksEvent& event) override {
    if (const auto warning = text_.straggler(event)) write_above(*warning);
  }
  void on_eval_progress(const EvalProgress& progress) override {
    if (!redraw_is_due()) return;
    last_drawn_ = clock_();
    std::string line = text_.eval_progress(progress);
    line.resize(std::min(line.size(), width_));
    show(std::move(line));
  }
  void on_eval(const EvalEvent& event) override { write_above(text_.eval(event)); }
  void on_checkpoint(const CheckpointEvent& event) override {
    write_above(text_.checkpoint(event));
  }
  void on_end(const EndEvent& event) override {
    if (text_.pending()) draw();
    if (shown_.empty()) {
      stream_ << text_.end(event) << '\n' << std::flush;
    } else {
      stream_ << '\n' << text_.end(event) << '\n' << std::flush;
    }
    shown_.clear();
  }

 private:
  bool redraw_is_due() const {
    constexpr std::chrono::milliseconds kRedraw{100};
    return !last_drawn_ || clock_() - *last_drawn_ >= kRedraw;
  }

  void draw() {
    last_drawn_ = clock_();
    constexpr std::size_t kBar = 20;
    const auto full = static_cast<std::size_t>(text_.fraction_done() * kBar);
    std::string line =
        "[" + std::string(full, '#') + std::string(kBar - full, '-') + "] " + text_.step_line();
    line.resize(std::min(line.size(), width_));
    show(std::move(line));
  }

  void show(std::string line) {
    const std::size_t rest = shown_.size() - std::min(shown_.size(), line.size());
    stream_ << '\r' << line << std::string(rest, ' ') << std::flush;
    shown_ = std::move(line);
  }

  void write_above(const std::string& line) {
    const std::string below = std::exchange(shown_, {});
    if (!below.empty()) stream_ << '\r' << std::string(below.size(), ' ') << '\r';
    stream_ << line << '\n' << std::flush;
    if (!below.empty()) show(below);
  }

  std::ostream& stream_;
  ProgressText text_;
  std::size_t width_;
  SteadyClock clock_;
  std::optional<std::chrono::steady_clock::time_point> last_drawn_;
  std::string shown_;  // the progress line as it stands
};

}  // namespace

PlainLines::PlainLines(const ConsoleOptions& options)
    : text_(options.metric, options.clock), interval_(options.seconds), clock_(options.clock) {}

void PlainLines::on_start(const StartEvent& event) { write_line(text_.start(event)); }

void PlainLines::on_step(const StepEvent& event) {
  text_.add(event);
  if (const auto warning = text_.warning(event)) write_line(*warning);
  if (line_is_due()) write_step();
}

void PlainLines::on_ranks(const RanksEvent& event) {
  if (const auto warning = text_.straggler(event)) write_line(*warning);
}

void PlainLines::on_eval_progress(const EvalProgress& progress) {
  if (!line_is_due()) return;
  if (text_.pending()) write_step();
  last_line_ = clock_();
  write_line(text_.eval_progress(progress));
}

void PlainLines::on_eval(const EvalEvent& event) { write_line(text_.eval(event)); }

void PlainLines::on_checkpoint(const CheckpointEvent& event) {
  write_line(text_.checkpoint(event));
}

void PlainLines::on_end(const EndEvent& event) {
  if (text_.pending()) write_step();
  write_line(text_.end(event));
}

void PlainLines::write_step() {
  last_line_ = clock_();
  write_line(text_.step_line());
}

bool PlainLines::line_is_due() const { return !last_line_ || clock_() - *last_line_ >= interval_; }

std::unique_ptr<Observer> make_console(std::ostream& stream, const ConsoleOptions& options) {
  if (options.terminal) return std::make_unique<TerminalConsole>(stream, options);
  return std::make_unique<PlainConsole>(stream, options);
}

}  // namespace trireme
