// SPDX-License-Identifier: Apache-2.0
#include "observe/console.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

#include "observe/log_file.hpp"
#include "observe/observer_list.hpp"
#include "support/temporary_directory.hpp"

namespace trireme::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class ConsoleTest : public ::testing::Test {
 protected:
  ConsoleOptions options() {
    return {.metric = "accuracy", .seconds = 5, .clock = [this] { return now_; }};
  }
  void pass(double seconds) {
    now_ += std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double>(seconds));
  }
  // One step that takes `seconds`.
  void take_step(Observer& observer, std::int64_t step, double seconds) {
    pass(seconds);
    observer.on_step({.step = step,
                      .epoch = static_cast<double>(step) / 5,
                      .loss = 1.23456,
                      .metric = 0.5,
                      .lr = 0.1,
                      .samples = 64,
                      .step_ms = seconds * 1000,
                      .comm_exposed_ms = 3});
  }

  std::chrono::steady_clock::time_point now_;
  std::ostringstream stream_;
};

constexpr StartEvent kStart{.step = 0,
                            .total_steps = 10,
                            .steps_per_epoch = 5,
                            .world_size = 4,
                            .parameters = 11'173'962,
                            .train_samples = 320};

const EvalEvent kEval{.step = 5,
                      .epoch = 1,
                      .split = "validation",
                      .loss = 1.5,
                      .metric = 0.75,
                      .samples = 1000,
                      .seconds = 0.25,
                      .best = true};

TEST_F(ConsoleTest, WarnsOnceOfNumbersThatCompressionCouldNotHold) {
  for (const bool terminal : {false, true}) {
    stream_.str("");
    ConsoleOptions console_options = options();
    console_options.terminal = terminal;
    const auto console = make_console(stream_, console_options);
    console->on_start(kStart);
    take_step(*console, 1, 0.1);
    EXPECT_THAT(stream_.str(), Not(HasSubstr("warning")));
    console->on_step({.step = 2, .step_ms = 1, .comm_saturated = 3});
    EXPECT_THAT(stream_.str(), HasSubstr("step 2: 3 numbers of the gradient"));
    stream_.str("");
    console->on_step({.step = 3, .step_ms = 1, .comm_saturated = 4});
    EXPECT_THAT(stream_.str(), Not(HasSubstr("warning")));
  }
}

TEST_F(ConsoleTest, SaysEachEventInOneLine) {
  const auto console = make_console(stream_, options());
  console->on_start(kStart);
  take_step(*console, 1, 0.5);
  console->on_eval(kEval);
  console->on_checkpoint({.step = 5,
                          .path = "c/step-00000005",
                          .size_bytes = 134'200'000,
                          .seconds = 0.75,
                          .stall_ms = 40});
  console->on_checkpoint({.step = 10,
                          .path = "c/step-00000010",
                          .size_bytes = 134'200'000,
                          .seconds = 0.75,
                          .stall_ms = 340,
                          .waited_ms = 300});
  console->on_end({.status = "finished", .steps = 10, .seconds = 125, .samples_per_s = 1234.5});
  EXPECT_EQ(stream_.str(),
            "training on 4 ranks: 11,173,962 parameters, 320 samples, 5 steps an epoch, "
            "10 steps in all\n"
            "step 1/10  epoch 0.20  loss 1.2346  accuracy 0.5000  lr 0.1  128 samples/s  "
            "step 500 ms  exposed comm 3 ms  ETA 5s\n"
            "validation after step 5  epoch 1.00  loss 1.5000  accuracy 0.7500  "
            "(1,000 samples, 0.2 s)  best so far\n"
            "checkpoint of step 5  c/step-00000005  (134.2 MB, 0.8 s, stall 40 ms)\n"
            "checkpoint of step 10  c/step-00000010  (134.2 MB, 0.8 s, stall 340 ms, "
            "300 ms of it for the one before)\n"
            "finished after 10 steps: 2m05s, 1234 samples/s\n");
}

TEST_F(ConsoleTest, AResumeIsSaidAtTheStart) {
  const auto console = make_console(stream_, options());
  console->on_start({.step = 7, .total_steps = 10});
  EXPECT_THAT(stream_.str(), HasSubstr(", going on after step 7\n"));
}

TEST_F(ConsoleTest, AnEarlyStopIsSaidInWords) {
  const auto console = make_console(stream_, options());
  console->on_end({.status = "early_stop", .steps = 1});
  EXPECT_EQ(stream_.str(), "stopped early after 1 step: 0s, 0 samples/s\n");
}

TEST_F(ConsoleTest, TheFirstStepComesAtOnceThenOneLineAnInterval) {
  const auto console = make_console(stream_, options());
  console->on_start(kStart);
  stream_.str("");
  take_step(*console, 1, 1);
  EXPECT_THAT(stream_.str(), HasSubstr("step 1/10"));
  stream_.str("");
  for (std::int64_t step = 2; step <= 5; ++step) take_step(*console, step, 1);
  EXPECT_EQ(stream_.str(), "");
  take_step(*console, 6, 1);
  EXPECT_THAT(stream_.str(), HasSubstr("step 6/10"));
}

TEST_F(ConsoleTest, WithoutAnIntervalEveryStepHasALine) {
  ConsoleOptions every = options();
  every.seconds = 0;
  const auto console = make_console(stream_, every);
  console->on_start(kStart);
  for (std::int64_t step = 1; step <= 3; ++step) take_step(*console, step, 0);
  const std::string text = stream_.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
}

TEST_F(ConsoleTest, SpeedIsTheMeanSinceTheLastLine) {
  const auto console = make_console(stream_, options());
  console->on_start(kStart);
  take_step(*console, 1, 1);
  stream_.str("");
  take_step(*console, 2, 2);
  take_step(*console, 3, 4);
  EXPECT_THAT(stream_.str(), HasSubstr("21.3 samples/s  step 3000 ms"));
  EXPECT_THAT(stream_.str(), HasSubstr("ETA 16s"));
}

TEST_F(ConsoleTest, TheLastStepIsSaidBeforeTheEnd) {
  const auto console = make_console(stream_, options());
  console->on_start(kStart);
  take_step(*console, 1, 1);
  take_step(*console, 2, 1);
  stream_.str("");
  console->on_end({.status = "stopped", .steps = 2, .seconds = 2, .samples_per_s = 64});
  EXPECT_EQ(stream_.str(),
            "step 2/10  epoch 0.40  loss 1.2346  accuracy 0.5000  lr 0.1  64 samples/s  "
            "step 1000 ms  exposed comm 3 ms  ETA 8s\n"
            "stopped after 2 steps: 2s, 64 samples/s\n");
}

TEST_F(ConsoleTest, LongTimesAreSaidInLargeUnits) {
  const auto console = make_console(stream_, options());
  for (const double seconds : {59.4, 60.0, 3600.0 + 120, 3 * 86400.0 + 4 * 3600}) {
    console->on_end({.status = "finished", .steps = 1, .seconds = seconds});
  }
  EXPECT_THAT(stream_.str(), HasSubstr(" 59s,"));
  EXPECT_THAT(stream_.str(), HasSubstr(" 1m00s,"));
  EXPECT_THAT(stream_.str(), HasSubstr(" 1h02m,"));
  EXPECT_THAT(stream_.str(), HasSubstr(" 3d04h,"));
}

TEST_F(ConsoleTest, APipeNeverSeesCarriageReturnsOrEscapes) {
  const auto console = make_console(stream_, options());
  console->on_start(kStart);
  for (std::int64_t step = 1; step <= 10; ++step) take_step(*console, step, 3);
  console->on_eval(kEval);
  console->on_end({.status = "finished", .steps = 10});
  EXPECT_THAT(stream_.str(), Not(HasSubstr("\r")));
  EXPECT_THAT(stream_.str(), Not(HasSubstr("\x1b")));
}

TEST_F(ConsoleTest, ATerminalRedrawsOneLineAndLetsOthersScroll) {
  ConsoleOptions terminal = options();
  terminal.terminal = true;
  terminal.terminal_width = 41;
  const auto console = make_console(stream_, terminal);
  console->on_start(kStart);
  stream_.str("");
  take_step(*console, 1, 1);
  const std::string first = "[##------------------] step 1/10  epoch ";
  EXPECT_EQ(stream_.str(), "\r" + first);
  stream_.str("");
  take_step(*console, 2, 0.01);  // too soon to be drawn
  EXPECT_EQ(stream_.str(), "");
  console->on_checkpoint({.step = 2, .path = "c", .size_bytes = 0, .seconds = 0});
  EXPECT_EQ(stream_.str(), "\r" + std::string(40, ' ') + "\rcheckpoint of step 2  c  (0.0 MB, " +
                               "0.0 s, stall 0 ms)\n\r" + first);
  stream_.str("");
  console->on_end({.status = "stopped", .steps = 2, .seconds = 2, .samples_per_s = 64});
  EXPECT_EQ(stream_.str(),
            "\r[####----------------] step 2/10  epoch \n"
            "stopped after 2 steps: 2s, 64 samples/s\n");
}

TEST_F(ConsoleTest, ARedrawnLineCoversALongerOne) {
  ConsoleOptions terminal = options();
  terminal.terminal = true;
  terminal.terminal_width = 400;
  const auto console = make_console(stream_, terminal);
  console->on_start(kStart);
  take_step(*console, 1, 1234.5);
  stream_.str("");
  take_step(*console, 2, 0.5);
  EXPECT_THAT(stream_.str(), ::testing::EndsWith("  "));
}

TEST_F(ConsoleTest, ATerminalWithoutStepsEndsWithItsEndLine) {
  ConsoleOptions terminal = options();
  terminal.terminal = true;
  const auto console = make_console(stream_, terminal);
  console->on_end({.status = "finished", .steps = 0});
  EXPECT_EQ(stream_.str(), "finished after 0 steps: 0s, 0 samples/s\n");
}

TEST_F(ConsoleTest, ALongEvaluationShowsHowFarItIs) {
  auto console = make_console(stream_, options());
  console->on_start(kStart);
  console->on_eval_progress({.split = "test", .samples = 500, .total = 10000});
  console->on_eval_progress({.split = "test", .samples = 1000, .total = 10000});
  EXPECT_NE(stream_.str().find("evaluating test: 500 of 10,000 samples\n"), std::string::npos);
  EXPECT_EQ(stream_.str().find("1,000 of"), std::string::npos) << "not more often than asked for";
}

RanksEvent ranks_event(int straggler) {
  return {.step = 20,
          .steps = 10,
          .ranks = {{.host = "a", .compute_ms = 90, .waited_ms = 30, .late_at = {}},
                    {.host = "b",
                     .compute_ms = 118,
                     .input_ms = 1,
                     .waited_ms = 1,
                     .late_ms = 29,
                     .late_at = "gradients"}},
          .straggler = straggler};
}

TEST_F(ConsoleTest, AStragglerIsNamedWhenThatHasChanged) {
  const auto console = make_console(stream_, options());
  console->on_ranks(ranks_event(-1));
  EXPECT_EQ(stream_.str(), "");
  console->on_ranks(ranks_event(1));
  EXPECT_EQ(stream_.str(),
            "warning: rank 1 (b) keeps the others waiting: over the last 10 steps it came 29.0 ms "
            "a step after the first rank, most of it to gradients; all ranks in metrics.jsonl and "
            "log.txt\n");
  stream_.str("");
  console->on_ranks(ranks_event(1));
  EXPECT_EQ(stream_.str(), "");
  console->on_ranks(ranks_event(-1));
  EXPECT_EQ(stream_.str(), "no rank keeps the others waiting any more\n");
}

TEST_F(ConsoleTest, TheTableOfRanksHasALineEach) {
  EXPECT_THAT(
      rank_table(ranks_event(1)),
      ElementsAre("times of all ranks in steps 11-20, ms a step:",
                  "  rank 0 (a)  compute 90.0  input 0.0  waiting for others 30.0  late 0.0",
                  "  rank 1 (b)  compute 118.0  input 1.0  waiting for others 1.0  late "
                  "29.0 (gradients)"));
}

TEST_F(ConsoleTest, OfManyRanksTheTableHasTheLatest) {
  RanksEvent event = ranks_event(-1);
  event.ranks.resize(40);
  event.ranks[33].late_ms = 50;
  const std::vector<std::string> table = rank_table(event);
  ASSERT_EQ(table.size(), 17);
  EXPECT_THAT(table[1], HasSubstr("rank 33 "));
  EXPECT_THAT(table[2], HasSubstr("rank 1 "));
}

TEST_F(ConsoleTest, TheLogHoldsThePlainLinesWithTheTimeAndKeepsThemOverResumes) {
  const TemporaryDirectory root;
  const LogFileOptions log_options{
      .path = root.path() / "log.txt",
      .lines = options(),
      .warn = [](const std::string& warning) { ADD_FAILURE() << warning; },
      .clock = [] { return std::chrono::system_clock::from_time_t(1738326896); }};
  {
    LogFile log(log_options);
    log.on_end({.status = "stopped", .steps = 1, .seconds = 2, .samples_per_s = 3});
  }
  {
    LogFile log(log_options);
    log.on_start(kStart);
  }
  std::ifstream stream(log_options.path);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_EQ(text,
            "2025-01-31T12:34:56Z stopped after 1 step: 2s, 3 samples/s\n"
            "2025-01-31T12:34:56Z training on 4 ranks: 11,173,962 parameters, 320 samples, "
            "5 steps an epoch, 10 steps in all\n");
}

// Writes down which call of which observer was made.
class Recorder : public Observer {
 public:
  Recorder(std::string name, std::vector<std::string>& calls)
      : name_(std::move(name)), calls_(calls) {}
  void on_start(const StartEvent&) override { calls_.push_back(name_ + " start"); }
  void on_step(const StepEvent&) override { calls_.push_back(name_ + " step"); }
  void on_eval(const EvalEvent&) override { calls_.push_back(name_ + " eval"); }
  void on_checkpoint(const CheckpointEvent&) override { calls_.push_back(name_ + " checkpoint"); }
  void on_end(const EndEvent&) override { calls_.push_back(name_ + " end"); }

 private:
  std::string name_;
  std::vector<std::string>& calls_;
};

TEST(ObserverList, TellsAllInOrder) {
  std::vector<std::string> calls;
  ObserverList list;
  list.add(std::make_unique<Recorder>("a", calls));
  list.add(std::make_unique<Recorder>("b", calls));
  list.on_start({});
  list.on_step({});
  list.on_eval({});
  list.on_checkpoint({});
  list.on_end({});
  EXPECT_THAT(calls, ElementsAre("a start", "b start", "a step", "b step", "a eval", "b eval",
                                 "a checkpoint", "b checkpoint", "a end", "b end"));
}

}  // namespace
}  // namespace trireme::test
