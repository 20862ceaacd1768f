// SPDX-License-Identifier: Apache-2.0
#include "observe/progress_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <utility>

namespace trireme {
namespace {

constexpr double kMsPerSecond = 1000;

std::string number(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

// A speed without an exponent: three significant digits, or all before the point.
std::string speed(double value) { return number(value < 100 ? "%.3g" : "%.0f", value); }

// 11173962 -> "11,173,962"
std::string grouped(std::int64_t value) {
  std::string text = std::to_string(value);
  constexpr std::ptrdiff_t kGroup = 3;
  for (auto at = std::ssize(text) - kGroup; at > 0; at -= kGroup) {
    text.insert(static_cast<std::size_t>(at), ",");
  }
  return text;
}

// "9s", "2m04s", "1h02m", "3d04h"
std::string duration(double seconds) {
  struct Unit {
    long long seconds;
    char name;
    long long next_seconds;
    char next_name;
  };
  constexpr std::array kUnits = {Unit{86400, 'd', 3600, 'h'}, Unit{3600, 'h', 60, 'm'},
                                 Unit{60, 'm', 1, 's'}};
  constexpr double kLongest = 1e9;
  const long long whole = std::llround(std::min(seconds, kLongest));
  for (const Unit& unit : kUnits) {
    if (whole < unit.seconds) continue;
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%lld%c%02lld%c", whole / unit.seconds, unit.name,
                  whole % unit.seconds / unit.next_seconds, unit.next_name);
    return text.data();
  }
  return std::to_string(whole) + "s";
}

std::string plural(std::int64_t count, const std::string& noun) {
  return grouped(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace

ProgressText::ProgressText(std::string metric, SteadyClock clock)
    : metric_(std::move(metric)), clock_(std::move(clock)) {}

std::string ProgressText::start(const StartEvent& event) {
  start_ = event;
  started_at_ = clock_();
  newest_ = {};
  newest_.step = event.step;
  std::string text = "training on " + plural(event.world_size, "rank") + ": " +
                     plural(event.parameters, "parameter") + ", " +
                     plural(event.train_samples, "sample") + ", " +
                     plural(event.steps_per_epoch, "step") + " an epoch, " +
                     plural(event.total_steps, "step") + " in all";
  if (event.step > 0) text += ", going on after step " + std::to_string(event.step);
  return text;
}

void ProgressText::add(const StepEvent& event) {
  newest_ = event;
  ++steps_;
  samples_ += event.samples;
  step_ms_ += event.step_ms;
  comm_exposed_ms_ += event.comm_exposed_ms;
}

std::optional<std::string> ProgressText::warning(const StepEvent& event) {
  if (event.comm_saturated == 0 || warned_) return std::nullopt;
  warned_ = true;
  return "warning: step " + std::to_string(event.step) + ": " +
         plural(event.comm_saturated, "number") +
         " of the gradient lay beyond the range of parallel.compression and became its largest; "
         "later ones are counted as comm_saturated in the metrics; bf16 has the range of fp32";
}

std::optional<std::string> ProgressText::straggler(const RanksEvent& event) {
  if (event.straggler == straggler_) return std::nullopt;
  straggler_ = event.straggler;
  if (straggler_ < 0) return "no rank keeps the others waiting any more";
  const RankTimes& rank = event.ranks[static_cast<std::size_t>(straggler_)];
  return "warning: rank " + std::to_string(straggler_) + " (" + rank.host +
         ") keeps the others waiting: over the last " + plural(event.steps, "step") + " it came " +
         number("%.1f", rank.late_ms) + " ms a step after the first rank, most of it to " +
         rank.late_at + "; all ranks in " + "metrics.jsonl and log.txt";
}

std::string ProgressText::step_line() {
  const auto count = static_cast<double>(steps_);
  const double samples_a_second =
      step_ms_ > 0 ? static_cast<double>(samples_) / step_ms_ * kMsPerSecond : 0;
  std::string text =
      "step " + std::to_string(newest_.step) + "/" + std::to_string(start_.total_steps) +
      "  epoch " + number("%.2f", newest_.epoch) + "  loss " + number("%.4f", newest_.loss) + "  " +
      metric_ + " " + number("%.4f", newest_.metric) + "  lr " + number("%.3g", newest_.lr) + "  " +
      speed(samples_a_second) + " samples/s  step " + speed(step_ms_ / count) +
      " ms  exposed comm " + speed(comm_exposed_ms_ / count) + " ms  ETA " + remaining_time();
  steps_ = samples_ = 0;
  step_ms_ = comm_exposed_ms_ = 0;
  return text;
}

// From the pace since the start: evaluations and checkpoints are in it.
std::string ProgressText::remaining_time() const {
  const std::chrono::duration<double> elapsed = clock_() - started_at_;
  const auto done = static_cast<double>(newest_.step - start_.step);
  const auto left = static_cast<double>(start_.total_steps - newest_.step);
  return duration(elapsed.count() / done * left);
}

double ProgressText::fraction_done() const {
  if (start_.total_steps <= 0) return 0;
  const double fraction =
      static_cast<double>(newest_.step) / static_cast<double>(start_.total_steps);
  return std::clamp(fraction, 0.0, 1.0);
}

std::string ProgressText::eval_progress(const EvalProgress& progress) const {
  return "evaluating " + progress.split + ": " + grouped(progress.samples) + " of " +
         plural(progress.total, "sample");
}

std::string ProgressText::eval(const EvalEvent& event) const {
  return event.split + " after step " + std::to_string(event.step) + "  epoch " +
         number("%.2f", event.epoch) + "  loss " + number("%.4f", event.loss) + "  " + metric_ +
         " " + number("%.4f", event.metric) + "  (" + plural(event.samples, "sample") + ", " +
         number("%.1f", event.seconds) + " s)" + (event.best ? "  best so far" : "");
}

std::string ProgressText::checkpoint(const CheckpointEvent& event) const {
  constexpr double kBytesPerMb = 1e6;
  return "checkpoint of step " + std::to_string(event.step) + "  " + event.path + "  (" +
         number("%.1f", static_cast<double>(event.size_bytes) / kBytesPerMb) + " MB, " +
         number("%.1f", event.seconds) + " s, stall " + number("%.0f", event.stall_ms) + " ms" +
         (event.waited_ms >= 1
              ? ", " + number("%.0f", event.waited_ms) + " ms of it for the one before)"
              : ")");
}

std::string ProgressText::end(const EndEvent& event) const {
  const std::string status = event.status == "early_stop" ? "stopped early" : event.status;
  return status + " after " + plural(event.steps, "step") + ": " + duration(event.seconds) + ", " +
         speed(event.samples_per_s) + " samples/s";
}

std::vector<std::string> rank_table(const RanksEvent& event) {
  constexpr std::size_t kMost = 16;
  std::vector<std::size_t> order(event.ranks.size());
  std::iota(order.begin(), order.end(), 0);
  const bool all = order.size() <= kMost;
  if (!all) {
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return event.ranks[a].late_ms > event.ranks[b].late_ms;
    });
    order.resize(kMost);
  }
  std::vector<std::string> lines{"times of " + std::string(all ? "all ranks" : "the latest ranks") +
                                 " in steps " + std::to_string(event.step - event.steps + 1) + "-" +
                                 std::to_string(event.step) + ", ms a step:"};
  for (const std::size_t r : order) {
    const RankTimes& rank = event.ranks[r];
    lines.push_back("  rank " + std::to_string(r) + " (" + rank.host + ")  compute " +
                    number("%.1f", rank.compute_ms) + "  input " + number("%.1f", rank.input_ms) +
                    "  waiting for others " + number("%.1f", rank.waited_ms) + "  late " +
                    number("%.1f", rank.late_ms) +
                    (rank.late_at.empty() ? std::string() : " (" + rank.late_at + ")"));
  }
  return lines;
}

}  // namespace trireme
