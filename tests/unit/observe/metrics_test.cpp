// SPDX-License-Identifier: Apache-2.0
#include "observe/metrics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support/temporary_directory.hpp"

namespace trireme::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::string_literals;
namespace fs = std::filesystem;

constexpr const char* kHeader =
    "step,epoch,loss,accuracy,lr,grad_norm,samples,sample_hash,samples_per_s,step_ms,data_wait_ms,"
    "comm_exposed_ms,comm_overlap,comm_sent_bytes,comm_saturated,comm_underflowed";

class Metrics : public ::testing::Test {
 protected:
  MetricsOptions options(const std::string& name, std::int64_t every_steps = 1) {
    return {.path = root_.path() / name,
            .metric = "accuracy",
            .every_steps = every_steps,
            .warn = [this](const std::string& warning) { warnings_.push_back(warning); }};
  }

  std::string text(const std::string& name) const {
    std::ifstream stream(root_.path() / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  void set_text(const std::string& name, const std::string& content) const {
    std::ofstream(root_.path() / name, std::ios::binary) << content;
  }

  std::vector<std::int64_t> json_steps(const std::string& name) const {
    std::vector<std::int64_t> steps;
    std::ifstream stream(root_.path() / name);
    for (std::string line; std::getline(stream, line);) {
      const auto json = nlohmann::json::parse(line);
      if (json.at("event") == "step") steps.push_back(json.at("step"));
    }
    return steps;
  }

  std::vector<std::string> csv_steps(const std::string& name) const {
    std::vector<std::string> steps;
    std::ifstream stream(root_.path() / name);
    for (std::string line; std::getline(stream, line);) {
      steps.push_back(line.substr(0, line.find(',')));
    }
    return steps;
  }

  TemporaryDirectory root_;
  std::vector<std::string> warnings_;
};

StepEvent step_event(std::int64_t step) {
  return {.step = step,
          .epoch = 0.5,
          .loss = 0.1,
          .metric = 0.25,
          .lr = 1e-3,
          .grad_norm = 1.0 / 3,
          .samples = 64,
          .sample_hash = 4294967296,
          .step_ms = 32,
          .data_wait_ms = 1,
          .comm_exposed_ms = 2,
          .comm_overlap = 0.75,
          .comm_sent_bytes = 1'000'000,
          .comm_saturated = 3,
          .comm_underflowed = 70};
}

void take_steps(Observer& observer, std::int64_t first, std::int64_t last) {
  for (std::int64_t step = first; step <= last; ++step) observer.on_step(step_event(step));
}

TEST_F(Metrics, JsonlHoldsOneObjectAnEvent) {
  JsonlWriter writer(options("m.jsonl"));
  writer.on_start({.step = 0,
                   .total_steps = 10,
                   .steps_per_epoch = 5,
                   .world_size = 4,
                   .parameters = 100,
                   .train_samples = 320});
  writer.on_step(step_event(1));
  writer.on_eval({.step = 1,
                  .epoch = 0.5,
                  .split = "validation",
                  .loss = 2,
                  .metric = 0.5,
                  .samples = 10,
                  .seconds = 1.5,
                  .best = true});
  writer.on_checkpoint({.step = 1,
                        .path = "c/step-00000001",
                        .size_bytes = 9,
                        .seconds = 0.25,
                        .stall_ms = 40,
                        .waited_ms = 0.5});
  writer.on_end({.status = "finished", .steps = 1, .seconds = 3, .samples_per_s = 2000});
  EXPECT_EQ(
      text("m.jsonl"),
      R"({"event":"start","step":0,"total_steps":10,"steps_per_epoch":5,"world_size":4,)"
      R"("parameters":100,"train_samples":320})"
      "\n"
      R"({"event":"step","step":1,"epoch":0.5,"loss":0.1,"accuracy":0.25,"lr":0.001,)"
      R"("grad_norm":0.3333333333333333,"samples":64,"sample_hash":4294967296,"samples_per_s":2000.0,)"
      R"("step_ms":32.0,"data_wait_ms":1.0,"comm_exposed_ms":2.0,"comm_overlap":0.75,)"
      R"("comm_sent_bytes":1000000,"comm_saturated":3,"comm_underflowed":70})"
      "\n"
      R"({"event":"eval","step":1,"epoch":0.5,"split":"validation","loss":2.0,)"
      R"("accuracy":0.5,"samples":10,"seconds":1.5,"best":true})"
      "\n"
      R"({"event":"checkpoint","step":1,"path":"c/step-00000001","size_bytes":9,)"
      R"("seconds":0.25,"stall_ms":40.0,"waited_ms":0.5})"
      "\n"
      R"({"event":"end","status":"finished","steps":1,"seconds":3.0,)"
      R"("samples_per_s":2000.0})"
      "\n");
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(Metrics, CsvHoldsOneRowAStep) {
  CsvWriter writer(options("m.csv"));
  writer.on_start({});
  take_steps(writer, 1, 2);
  writer.on_end({});
  EXPECT_EQ(
      text("m.csv"),
      std::string(kHeader) +
          "\n1,0.5,0.1,0.25,0.001,0.3333333333333333,64,4294967296,2000,32,1,2,0.75,1000000,3,70\n"
          "2,0.5,0.1,0.25,0.001,0.3333333333333333,64,4294967296,2000,32,1,2,0.75,1000000,3,70\n");
}

TEST_F(Metrics, NumbersReadBackBitForBit) {
  JsonlWriter jsonl(options("m.jsonl"));
  CsvWriter csv(options("m.csv"));
  jsonl.on_start({});
  csv.on_start({});
  for (const double loss : {0.1 + 0.2, 1.0 / 3, 5e-324, 1.7976931348623157e308, 1e22, -0.0}) {
    StepEvent event = step_event(1);
    event.loss = loss;
    jsonl.on_step(event);
    csv.on_step(event);
    const std::string json = text("m.jsonl");
    const auto line = json.rfind('\n', json.size() - 2) + 1;
    const double from_json = nlohmann::json::parse(json.substr(line)).at("loss");
    EXPECT_EQ(std::signbit(from_json), std::signbit(loss));
    EXPECT_EQ(from_json, loss);
    const std::string rows = text("m.csv");
    const auto row = rows.rfind('\n', rows.size() - 2) + 1;
    EXPECT_EQ(std::strtod(rows.c_str() + row + std::string("1,0.5,").size(), nullptr), loss);
  }
}

TEST_F(Metrics, NumbersThatAreNotFiniteAreNullInJsonAndNamedInCsv) {
  JsonlWriter jsonl(options("m.jsonl"));
  CsvWriter csv(options("m.csv"));
  jsonl.on_start({});
  csv.on_start({});
  StepEvent event = step_event(1);
  event.loss = std::numeric_limits<double>::quiet_NaN();
  event.grad_norm = -std::numeric_limits<double>::infinity();
  jsonl.on_step(event);
  csv.on_step(event);
  EXPECT_THAT(text("m.jsonl"), HasSubstr(R"("loss":null)"));
  EXPECT_THAT(text("m.csv"), HasSubstr("\n1,0.5,nan,0.25,0.001,-inf,"));
}

TEST_F(Metrics, AStepWithoutDurationHasNoSpeed) {
  EXPECT_EQ(samples_per_s({.samples = 10, .step_ms = 0}), 0);
}

TEST_F(Metrics, OnlyMultiplesOfEveryStepsAreWrittenAndTheLast) {
  JsonlWriter jsonl(options("m.jsonl", 3));
  CsvWriter csv(options("m.csv", 3));
  for (Observer* writer : {static_cast<Observer*>(&jsonl), static_cast<Observer*>(&csv)}) {
    writer->on_start({});
    take_steps(*writer, 1, 8);
    writer->on_end({});
  }
  EXPECT_THAT(json_steps("m.jsonl"), ElementsAre(3, 6, 8));
  EXPECT_THAT(csv_steps("m.csv"), ElementsAre("step", "3", "6", "8"));
}

TEST_F(Metrics, TheLastStepIsWrittenOnce) {
  JsonlWriter writer(options("m.jsonl", 3));
  writer.on_start({});
  take_steps(writer, 1, 6);
  writer.on_end({});
  EXPECT_THAT(json_steps("m.jsonl"), ElementsAre(3, 6));
}

TEST_F(Metrics, AResumedRunHasNoGapAndNoDouble) {
  for (const std::int64_t resumed_after : {0, 1, 4, 5}) {
    const std::string name = std::to_string(resumed_after);
    for (const std::int64_t first : {std::int64_t{0}, resumed_after}) {
      JsonlWriter jsonl(options(name + ".jsonl"));
      CsvWriter csv(options(name + ".csv"));
      for (Observer* writer : {static_cast<Observer*>(&jsonl), static_cast<Observer*>(&csv)}) {
        writer->on_start({.step = first});
        take_steps(*writer, first + 1, 5);
      }
    }
    EXPECT_THAT(json_steps(name + ".jsonl"), ElementsAre(1, 2, 3, 4, 5));
    EXPECT_THAT(csv_steps(name + ".csv"), ElementsAre("step", "1", "2", "3", "4", "5"));
  }
}

TEST_F(Metrics, ResumingRemovesEveryKindOfLaterEventAndKeepsEarlierOnes) {
  const std::string kept = R"({"event":"start","step":0})"
                           "\n"
                           R"({"event":"eval","step":4})"
                           "\n"
                           R"({"event":"end","status":"stopped","steps":4})"
                           "\n";
  set_text("m.jsonl", kept + R"({"event":"eval","step":5})" + "\n" +
                          R"({"event":"checkpoint","step":6})" + "\n" +
                          R"({"event":"end","status":"finished","steps":7})" + "\n");
  JsonlWriter writer(options("m.jsonl"));
  writer.on_start({.step = 4});
  EXPECT_THAT(text("m.jsonl"), ::testing::StartsWith(kept + R"({"event":"start","step":4,)"));
}

TEST_F(Metrics, AnEvaluationThatComesAgainStandsOnce) {
  set_text("m.jsonl", "{\"event\":\"step\",\"step\":4}\n{\"event\":\"eval\",\"step\":4}\n"s);
  JsonlWriter writer(options("m.jsonl"));
  writer.on_start({.step = 4, .evaluation_pending = true});
  EvalEvent event;
  event.step = 4;
  writer.on_eval(event);
  const std::string all = text("m.jsonl");
  EXPECT_EQ(all.find("eval"), all.rfind("\"eval\"") + 1);
  EXPECT_THAT(json_steps("m.jsonl"), ElementsAre(4));
}

TEST_F(Metrics, EveryColumnIsExplained) {
  std::ifstream file(std::string(TRIREME_SOURCE_DIR) + "/framework/docs/METRICS.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  std::stringstream columns(kHeader);
  for (std::string column; std::getline(columns, column, ',');) {
    EXPECT_THAT(page, HasSubstr("\n| " + column + " |"));
  }
}

TEST_F(Metrics, LinesTornOrGarbledByAKillAreRemoved) {
  set_text("m.jsonl",
           "{\"event\":\"step\",\"step\":1}\n\0\0\n[1]\n7\n{\"step\":\"1\"}\n"
           "{\"event\":\"step\",\"step\":2"s);
  set_text("m.csv", std::string(kHeader) + "\n1,0.5\ngarbled\n2\n3,0.");
  JsonlWriter jsonl(options("m.jsonl"));
  CsvWriter csv(options("m.csv"));
  jsonl.on_start({.step = 9});
  csv.on_start({.step = 9});
  EXPECT_THAT(json_steps("m.jsonl"), ElementsAre(1));
  EXPECT_THAT(csv_steps("m.csv"), ElementsAre("step", "1"));
}

TEST_F(Metrics, AFileThatCannotBeWrittenIsWarnedAboutOnce) {
  JsonlWriter writer(options("missing/m.jsonl"));
  writer.on_start({});
  take_steps(writer, 1, 3);
  writer.on_end({});
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("missing/m.jsonl")));
}

TEST_F(Metrics, ALinkLaidInWaitIsNotFollowed) {
  set_text("victim", "precious\n");
  fs::create_symlink(root_.path() / "victim", root_.path() / "m.jsonl");
  JsonlWriter writer(options("m.jsonl"));
  writer.on_start({});
  EXPECT_EQ(text("victim"), "precious\n");
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("symbolic link")));
}

// The limit on file sizes stands in for a full disk.
TEST_F(Metrics, ALineThatDoesNotFitIsLeftOutAsAWholeAndLaterOnesAreWritten) {
  CsvWriter writer(options("m.csv"));
  writer.on_start({});
  writer.on_step(step_event(1));
  const std::string before = text("m.csv");
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{.rlim_cur = before.size() + 10, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  take_steps(writer, 2, 3);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(text("m.csv"), before);
  writer.on_step(step_event(4));
  EXPECT_THAT(csv_steps("m.csv"), ElementsAre("step", "1", "4"));
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("File too large")));
}

}  // namespace
}  // namespace trireme::test
