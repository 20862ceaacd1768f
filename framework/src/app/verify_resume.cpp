// SPDX-License-Identifier: Apache-2.0
#include "app/verify_resume.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/checkpoint_diff.hpp"
#include "base/files.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "checkpoint/archive.hpp"
#include "checkpoint/run_directory.hpp"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct Steps {
  std::int64_t before = 0, after = 0;  // the kill
  std::int64_t all() const { return before + after; }
};

// "5+5"
Steps parse_steps(const std::string& text) {
  const auto number = [](std::string_view digits, std::int64_t& value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size() && value > 0 &&
           value <= 1'000'000;
  };
  Steps steps;
  const std::size_t plus = text.find('+');
  if (plus == std::string::npos || !number(std::string_view(text).substr(0, plus), steps.before) ||
      !number(std::string_view(text).substr(plus + 1), steps.after)) {
    throw ConfigError("command line: --steps: " + printable(text) +
                      " is not two numbers of steps; expected K+M, as in 5+5");
  }
  return steps;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

// What is the same whenever and however fast it was measured, a line an event of steps and
// evaluations.
std::vector<std::string> measured(const fs::path& run) {
  static const std::set<std::string> kOfTheMachine{
      "samples_per_s", "step_ms",         "data_wait_ms", "comm_exposed_ms",
      "comm_overlap",  "comm_sent_bytes", "seconds"};
  std::vector<std::string> lines;
  std::istringstream text(RunDirectory::read(run, "metrics.jsonl"));
  for (std::string line; std::getline(text, line);) {
    Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    const std::string event = json.is_object() ? json.value("event", "") : "";
    if (event != "step" && event != "eval") continue;
    for (const std::string& name : kOfTheMachine) json.erase(name);
    lines.push_back(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return lines;
}

std::int64_t count_steps(const std::vector<std::string>& lines) {
  return std::ranges::count_if(
      lines, [](const std::string& line) { return line.starts_with(R"({"event":"step")"); });
}

// Of the first line that differs; empty: none does.
std::string first_difference(const std::vector<std::string>& undisturbed,
                             const std::vector<std::string>& resumed) {
  for (std::size_t i = 0; i < std::max(undisturbed.size(), resumed.size()); ++i) {
    const std::string a = i < undisturbed.size() ? undisturbed[i] : "nothing";
    const std::string b = i < resumed.size() ? resumed[i] : "nothing";
    if (a != b)
      return "metrics.jsonl differs:\n  undisturbed: " + a + "\n  resumed:     " + b + "\n";
  }
  return {};
}

// The runs of one proof, in a directory of their own.
class Proof {
 public:
  Proof(const CommandLine& line, Launch& launch)
      : line_(line),
        launch_(launch),
        steps_(parse_steps(line.steps)),
        directory_(line.directory.empty() ? "verify-resume-" + std::to_string(getpid())
                                          : line.directory) {
    for (const std::string& setting : line.overrides) {
      for (const char* key : {"run.dir=", "train.epochs=", "train.max_steps="}) {
        if (!setting.starts_with(key)) continue;
        throw ConfigError("command line: " + printable(setting) +
                          ": verify-resume sets that itself; --dir and --steps say where and how "
                          "long it trains");
      }
    }
    std::error_code error;
    if (fs::create_directory(directory_, error)) return;
    throw ConfigError("command line: --dir: " + directory_.string() +
                      (error ? " cannot be made: " + error.message() : " exists already") +
                      "; expected the name of a directory to make");
  }

  void train_undisturbed() {
    start("undisturbed", run_of("undisturbed"), steps_.all(), 0);
    if (last_step("undisturbed") != steps_.all()) fail("the undisturbed run did not reach its end");
  }

  void train_and_kill() {
    std::vector<std::string> words = run_of("killed");
    for (const char* word :
         {"--enable-fault-injection", "--inject", "rank=0,point=checkpoint.latest,action=kill"}) {
      words.emplace_back(word);
    }
    start("killed", words, steps_.before, kAnyFailure);
    if (RunDirectory::read(directory_, "killed.txt").find("fault injected on rank 0") ==
        std::string::npos)
      fail("the run that was to be killed ended otherwise");
    killed_at_ = last_step("killed");
    if (killed_at_ <= 0 || killed_at_ >= steps_.all())
      fail("the run was to be killed after a checkpoint before its last step");
  }

  void resume() {
    start("resumed", with_options({"resume", (directory_ / "killed").string()}),
          steps_.all() - killed_at_, 0);
    if (last_step("killed") != steps_.all()) fail("the resumed run did not reach its end");
  }

  // Empty: none.
  std::string differences(const Registry& registry) const {
    const fs::path undisturbed = directory_ / "undisturbed", resumed = directory_ / "killed";
    if (count_steps(measured(undisturbed)) != steps_.all())
      fail("metrics.jsonl of the undisturbed run has not a line for each step");
    const CheckpointDiff diff = diff_checkpoints(newest("undisturbed"), newest("killed"), registry);
    return (diff.equal ? std::string() : diff.text) +
           first_difference(measured(undisturbed), measured(resumed));
  }

  void report_success() const {
    say(launch_, "killed with SIGKILL after the checkpoint of step " + std::to_string(killed_at_) +
                     " and resumed: after step " + std::to_string(steps_.all()) +
                     " weights, optimizer and training state are those of the undisturbed run, bit "
                     "for bit; so are the losses, metrics, rates and samples of all steps\n");
  }

  void keep_or_remove(bool keep) const {
    if (keep) return;
    remove_tree(directory_);
  }
  const fs::path& directory() const { return directory_; }

 private:
  static constexpr int kAnyFailure = -1;

  std::vector<std::string> with_options(std::vector<std::string> words) const {
    if (!line_.network.empty()) words.insert(words.end(), {"--network", line_.network});
    if (line_.ranks_per_node > 0)
      words.insert(words.end(), {"--ranks-per-node", std::to_string(line_.ranks_per_node)});
    return words;
  }

  std::vector<std::string> run_of(const std::string& name) const {
    std::vector<std::string> words{"train", line_.target};
    words.insert(words.end(), line_.overrides.begin(), line_.overrides.end());
    words.insert(words.end(),
                 {"run.dir=" + Json((directory_ / name).string()).dump(), "run.time_limit=0",
                  "train.epochs=0", "train.max_steps=" + std::to_string(steps_.all()),
                  "checkpoint.every_steps=" + std::to_string(steps_.before), "log.every_steps=1"});
    return with_options(std::move(words));
  }

  // steps: that it trains, for whoever waits.
  void start(const std::string& name, const std::vector<std::string>& arguments, std::int64_t steps,
             int expected) {
    std::vector<std::string> words = words_of(line_.launch);
    words.push_back(own_program());
    words.insert(words.end(), arguments.begin(), arguments.end());
    const fs::path output = directory_ / (name + ".txt");
    say(launch_, name + ": " + plural(steps, "step") + " ...\n");
    const int code = run(words, output);
    const bool as_expected = expected == kAnyFailure ? code != 0 : code == expected;
    if (as_expected) return;
    const std::string text = RunDirectory::read(directory_, name + ".txt");
    constexpr std::size_t kTail = 2000;
    const std::string why = "the run '" + name + "' ended with exit code " + std::to_string(code) +
                            "; its output, " + output.string() + ", ends with:\n" +
                            text.substr(text.size() - std::min(text.size(), kTail));
    fail(why, code == 0 ? ExitCode::kCheckpoint : static_cast<ExitCode>(code));
  }

  // Where not even the first run could be started there is nothing to look at.
  int run(const std::vector<std::string>& words, const fs::path& output) {
    try {
      const int code = run_program(words, output);
      started_ = true;
      return code;
    } catch (const EnvironmentError&) {
      if (!started_) remove_tree(directory_);
      throw;
    }
  }

  [[noreturn]] void fail(const std::string& why, ExitCode code = ExitCode::kCheckpoint) const {
    throw Error(code, "verify-resume: " + why + "; all of it is in " + directory_.string());
  }

  fs::path newest(const std::string& run) const {
    const std::vector<fs::path> all = list_checkpoints(directory_ / run / "checkpoints");
    return all.empty() ? fs::path() : all.back();
  }
  std::int64_t last_step(const std::string& run) const {
    const fs::path path = newest(run);
    return path.empty() ? 0 : CheckpointReader(path).step();
  }

  const CommandLine& line_;
  Launch& launch_;
  const Steps steps_;
  const fs::path directory_;
  std::int64_t killed_at_ = 0;
  bool started_ = false;  // a run was
};

}  // namespace

int verify_resume(const CommandLine& line, const Registry& registry, Launch& launch) {
  if (launch.under_launcher()) {
    throw ConfigError(
        "verify-resume starts the ranks itself, three times: call it by hand or in a batch script, "
        "without mpirun or srun before it, and say in --launch how to start ranks, as in --launch "
        "\"mpirun -np 4\"");
  }
  Proof proof(line, launch);
  proof.train_undisturbed();
  proof.train_and_kill();
  proof.resume();
  const std::string differences = proof.differences(registry);
  if (!differences.empty()) {
    say(launch, differences);
    throw CheckpointError(
        "the resumed run is not the undisturbed one, as listed above; all of it is in " +
        proof.directory().string());
  }
  proof.report_success();
  proof.keep_or_remove(line.keep);
  return 0;
}

}  // namespace trireme
