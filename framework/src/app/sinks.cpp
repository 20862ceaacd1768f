// SPDX-License-Identifier: Apache-2.0
#include "app/sinks.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "base/inject.hpp"
#include "observe/console.hpp"
#include "observe/log_file.hpp"
#include "observe/metrics.hpp"

namespace trireme {
namespace {

ConsoleOptions console_options(const Config& config, bool plain) {
  ConsoleOptions options{.metric = config.metric.name, .seconds = config.log.console_seconds};
  options.terminal = !plain && isatty(STDOUT_FILENO) == 1;
  winsize size{};
  if (options.terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    options.terminal_width = size.ws_col;
  }
  return options;
}

}  // namespace

void warn(const std::string& text) {
  std::cerr << "trireme: warning: " + text + "\n" << std::flush;
}

void StateFile::on_start(const StartEvent& event) {
  step_ = event.step;
  total_steps_ = event.total_steps;
  write("running", "");
}

void StateFile::on_step(const StepEvent& event) { step_ = event.step; }

void StateFile::on_checkpoint(const CheckpointEvent& event) {
  step_ = event.step;
  checkpoint_ = event.path;
  write("running", "");
}

void StateFile::on_end(const EndEvent& event) {
  step_ = event.steps;
  write(event.status, "");
}

void StateFile::fail(const std::string& reason) { write("failed", reason); }

// For those who look on: a full disk must not end the run here, the next checkpoint will tell.
void StateFile::write(const std::string& status, const std::string& reason) const {
  nlohmann::ordered_json json;
  json["status"] = status;
  json["step"] = step_;
  json["total_steps"] = total_steps_;
  json["checkpoint"] = checkpoint_;
  if (!reason.empty()) json["reason"] = reason;
  try {
    fault_point(FaultPoint::kLogWrite);
    directory_.write("state.json",
                     json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } catch (const CheckpointError& error) {
    warn(error.what());
  }
}

// log.txt, with what the watchdog says.
class Sinks::WarningLog : public LogFile {
 public:
  WarningLog(const LogFileOptions& options, std::function<std::vector<std::string>()> warnings)
      : LogFile(options), warnings_(std::move(warnings)) {}

  void on_step(const StepEvent& event) override {
    write_warnings();
    LogFile::on_step(event);
  }
  void fail(const std::string& reason) {
    write_warnings();
    write_lines("error: " + reason);
  }

 private:
  void write_warnings() {
    for (const std::string& text : warnings_()) write_lines("warning: " + text);
  }
  void write_lines(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) write_line(line);
  }

  std::function<std::vector<std::string>()> warnings_;
};

void Sinks::open(const Config& config, const RunDirectory& directory, const SinkOptions& options) {
  auto state = std::make_unique<StateFile>(directory, options.checkpoint);
  state_ = state.get();
  const ConsoleOptions console = console_options(config, options.plain);
  observers_.add(make_console(std::cout, console));
  auto log = std::make_unique<WarningLog>(
      LogFileOptions{.path = directory.file("log.txt"), .lines = console, .warn = warn},
      options.warnings);
  log_ = log.get();
  for (const std::string& line : options.before) log->write_line(line);
  observers_.add(std::move(log));
  const auto metrics = [&](const char* name) {
    return MetricsOptions{.path = directory.file(name),
                          .metric = config.metric.name,
                          .every_steps = config.log.every_steps,
                          .warn = warn};
  };
  observers_.add(std::make_unique<JsonlWriter>(metrics("metrics.jsonl")));
  observers_.add(std::make_unique<CsvWriter>(metrics("metrics.csv")));
  observers_.add(std::move(state));
}

void Sinks::fail(const std::string& reason) {
  if (log_ != nullptr) log_->fail(reason);
  if (state_ != nullptr) state_->fail(reason);
}

}  // namespace trireme
