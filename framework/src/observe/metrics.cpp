// SPDX-License-Identifier: Apache-2.0
#include "observe/metrics.hpp"

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "trireme/error.hpp"

namespace trireme {
using Json = nlohmann::ordered_json;
namespace {

// The step that a line of metrics.jsonl speaks of; nothing if the line is none of ours.
std::optional<std::int64_t> step_of_json(std::string_view line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  const auto found = json.find(json.contains("step") ? "step" : "steps");
  if (found == json.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<std::int64_t>();
}

bool is_eval(std::string_view line) {
  return Json::parse(line, nullptr, /*allow_exceptions=*/false).value("event", "") == "eval";
}

// As step_of_json, of a row of metrics.csv.
std::optional<std::int64_t> step_of_row(std::string_view line) {
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), step);
  if (error != std::errc() || end == line.data() + line.size() || *end != ',') return std::nullopt;
  return step;
}

using Column = std::pair<std::string, std::variant<std::int64_t, double>>;

// What is written of a step; framework/docs/METRICS.md says what each is.
std::vector<Column> columns_of(const StepEvent& event, const std::string& metric) {
  return {{"step", event.step},
          {"epoch", event.epoch},
          {"loss", event.loss},
          {metric, event.metric},
          {"lr", event.lr},
          {"grad_norm", event.grad_norm},
          {"samples", event.samples},
          {"sample_hash", event.sample_hash},
          {"samples_per_s", samples_per_s(event)},
          {"step_ms", event.step_ms},
          {"data_wait_ms", event.data_wait_ms},
          {"comm_exposed_ms", event.comm_exposed_ms},
          {"comm_overlap", event.comm_overlap},
          {"comm_sent_bytes", event.comm_sent_bytes},
          {"comm_saturated", event.comm_saturated},
          {"comm_underflowed", event.comm_underflowed}};
}

// Paths are bytes and need not be UTF-8.
std::string to_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The shortest text that reads back to the same value.
template <typename Number>
std::string shortest(Number value) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  TRIREME_ASSERT(error == std::errc(), "a number has more than 32 characters");
  return {text.data(), end};
}

}  // namespace

double samples_per_s(const StepEvent& event) {
  constexpr double kMsPerSecond = 1000;
  return event.step_ms > 0 ? static_cast<double>(event.samples) / event.step_ms * kMsPerSecond : 0;
}

MetricsFile::MetricsFile(const MetricsOptions& options)
    : metric_(options.metric),
      file_(options.path, options.warn),
      every_steps_(options.every_steps) {}

void MetricsFile::on_step(const StepEvent& event) {
  left_out_.reset();
  if (event.step % every_steps_ == 0) {
    write_step(event);
  } else {
    left_out_ = event;
  }
}

void MetricsFile::write_left_out() {
  if (const std::optional<StepEvent> last = std::exchange(left_out_, {})) write_step(*last);
}

void JsonlWriter::on_start(const StartEvent& event) {
  file_.start("", [&](std::string_view line) {
    const std::optional<std::int64_t> step = step_of_json(line);
    if (!step || *step > event.step) return false;
    const bool comes_again = event.evaluation_pending && *step == event.step && is_eval(line);
    return !comes_again;
  });
  file_.append(to_text({{"event", "start"},
                        {"step", event.step},
                        {"total_steps", event.total_steps},
                        {"steps_per_epoch", event.steps_per_epoch},
                        {"world_size", event.world_size},
                        {"parameters", event.parameters},
                        {"train_samples", event.train_samples}}));
}

void JsonlWriter::write_step(const StepEvent& event) {
  Json json{{"event", "step"}};
  for (const Column& column : columns_of(event, metric_)) {
    std::visit([&](const auto number) { json[column.first] = number; }, column.second);
  }
  file_.append(to_text(json));
}

void JsonlWriter::on_ranks(const RanksEvent& event) {
  Json json{{"event", "ranks"}, {"step", event.step}, {"steps", event.steps}};
  for (const char* name : {"compute_ms", "input_ms", "waited_ms", "late_ms"})
    json[name] = Json::array();
  for (const RankTimes& rank : event.ranks) {
    json["compute_ms"].push_back(rank.compute_ms);
    json["input_ms"].push_back(rank.input_ms);
    json["waited_ms"].push_back(rank.waited_ms);
    json["late_ms"].push_back(rank.late_ms);
  }
  json["straggler"] = event.straggler < 0 ? Json(nullptr) : Json(event.straggler);
  file_.append(to_text(json));
}

void JsonlWriter::on_eval(const EvalEvent& event) {
  file_.append(to_text({{"event", "eval"},
                        {"step", event.step},
                        {"epoch", event.epoch},
                        {"split", event.split},
                        {"loss", event.loss},
                        {metric_, event.metric},
                        {"samples", event.samples},
                        {"seconds", event.seconds},
                        {"best", event.best}}));
}

void JsonlWriter::on_checkpoint(const CheckpointEvent& event) {
  file_.append(to_text({{"event", "checkpoint"},
                        {"step", event.step},
                        {"path", event.path},
                        {"size_bytes", event.size_bytes},
                        {"seconds", event.seconds},
                        {"stall_ms", event.stall_ms},
                        {"waited_ms", event.waited_ms}}));
}

void JsonlWriter::on_end(const EndEvent& event) {
  write_left_out();
  file_.append(to_text({{"event", "end"},
                        {"status", event.status},
                        {"steps", event.steps},
                        {"seconds", event.seconds},
                        {"samples_per_s", event.samples_per_s}}));
}

void CsvWriter::on_start(const StartEvent& event) {
  std::string header;
  for (const auto& [name, value] : columns_of({}, metric_)) {
    header += (header.empty() ? "" : ",") + name;
  }
  file_.start(header + "\n", [&](std::string_view line) {
    const std::optional<std::int64_t> step = step_of_row(line);
    return step && *step <= event.step;
  });
}

void CsvWriter::write_step(const StepEvent& event) {
  std::string row;
  for (const auto& [name, value] : columns_of(event, metric_)) {
    if (!row.empty()) row += ',';
    row += std::visit([](const auto number) { return shortest(number); }, value);
  }
  file_.append(row);
}

void CsvWriter::on_end(const EndEvent& /*event*/) { write_left_out(); }

}  // namespace trireme
