// SPDX-License-Identifier: Apache-2.0
#include "app/inspect.hpp"

#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <map>
#include <system_error>

#include <nlohmann/json.hpp>

#include "app/checkpoint_diff.hpp"
#include "app/estimate.hpp"
#include "app/find_checkpoint.hpp"
#include "app/table.hpp"
#include "base/text.hpp"
#include "checkpoint/archive.hpp"
#include "checkpoint/array_text.hpp"
#include "checkpoint/directory.hpp"
#include "checkpoint/manifest.hpp"
#include "comm/shared_error.hpp"
#include "train/training_state.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Row = std::vector<std::string>;

// A checkpoint may be removed while it is looked at: then it has 0 bytes and was written never.
std::int64_t bytes_of(const fs::path& directory) {
  std::error_code error;
  std::int64_t bytes = 0;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    const std::uintmax_t size = it->is_regular_file(gone) ? it->file_size(gone) : 0;
    if (!gone) bytes += static_cast<std::int64_t>(size);
  }
  return bytes;
}

// Local time, to the second.
std::string written_at(const fs::path& directory) {
  std::error_code error;
  const fs::file_time_type written = fs::last_write_time(directory / kManifestFile, error);
  if (error) return "?";
  const auto since_epoch = fs::file_time_type::clock::to_sys(written);
  const std::time_t seconds = std::chrono::system_clock::to_time_t(
      std::chrono::time_point_cast<std::chrono::system_clock::duration>(since_epoch));
  std::tm parts{};
  if (localtime_r(&seconds, &parts) == nullptr) return "?";
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts)};
}

// "latest, best": the links beside this checkpoint that name it.
std::string marks_of(const fs::path& checkpoint) {
  Row marks;
  for (const char* link : {"latest", "best"}) {
    std::error_code none;
    const fs::path target = fs::read_symlink(checkpoint.parent_path() / link, none);
    if (!none && target.filename() == checkpoint.filename()) marks.emplace_back(link);
  }
  return joined(marks);
}

std::string step_text(const fs::path& checkpoint) {
  const auto step = step_of(checkpoint.filename().string());
  return step ? std::to_string(*step) : "?";
}

// What is wrong with it; empty: nothing.
std::string problem_of(const fs::path& checkpoint) {
  try {
    const CheckpointReader reader(checkpoint);
    const StateDocument document = parse_state(reader.state(), checkpoint.string());
    if (document.state.step != reader.step()) {
      return checkpoint.string() + ": the state says step " + std::to_string(document.state.step) +
             ", the manifest " + std::to_string(reader.step());
    }
    return {};
  } catch (const CheckpointError& error) {
    // A run that trains meanwhile removes old ones.
    std::error_code none;
    const bool gone = fs::symlink_status(checkpoint, none).type() == fs::file_type::not_found;
    return gone ? std::string() : error.what();
  }
}

// Links that lead nowhere; one line each.
std::vector<std::string> broken_links(const fs::path& folder) {
  std::vector<std::string> problems;
  for (const char* name : {"latest", "best"}) {
    std::error_code error;
    const fs::path link = folder / name;
    if (fs::is_symlink(fs::symlink_status(link, error)) && !fs::exists(link, error)) {
      problems.push_back(link.string() + " leads to " + fs::read_symlink(link, error).string() +
                         ", which is not there");
    }
  }
  return problems;
}

// Throws where something is wrong; each problem was said before.
void require_none(std::size_t num_problems, const fs::path& target) {
  if (num_problems == 0) return;
  throw CheckpointError(plural(static_cast<std::int64_t>(num_problems), "problem") + " in " +
                        target.string() +
                        ", listed above; `trainer resume` passes over damaged checkpoints");
}

void list(const CommandLine& line, Launch& launch) {
  const fs::path folder = checkpoints_folder(line.target);
  std::vector<Row> rows{{"checkpoint", "step", "size", "written", "marks"}};
  if (line.verify) rows.front().insert(rows.front().begin() + 1, "verified");
  std::vector<std::string> problems;
  for (const fs::path& checkpoint : list_checkpoints(folder)) {
    Row row{checkpoint.filename().string(), step_text(checkpoint),
            human_bytes(bytes_of(checkpoint)), written_at(checkpoint), marks_of(checkpoint)};
    if (line.verify) {
      const std::string problem = problem_of(checkpoint);
      row.insert(row.begin() + 1, problem.empty() ? "ok" : "DAMAGED");
      if (!problem.empty()) problems.push_back(problem);
    }
    rows.push_back(std::move(row));
  }
  say(launch, rows.size() > 1 ? aligned(rows) : folder.string() + " holds no checkpoint yet\n");
  for (const std::string& problem : problems) say(launch, problem + "\n");
  require_none(problems.size(), folder);
}

void verify(const CommandLine& line, Launch& launch) {
  const fs::path target = line.target;
  std::vector<fs::path> checkpoints{target};
  std::size_t problems = 0;
  const auto report = [&](const std::string& problem) {
    say(launch, problem + "\n");
    ++problems;
  };
  if (!names_checkpoint(target)) {
    const fs::path folder = checkpoints_folder(target);
    checkpoints = list_checkpoints(folder);
    for (const std::string& problem : broken_links(folder)) report(problem);
  }
  if (checkpoints.empty()) throw CheckpointError(target.string() + " holds no checkpoint yet");
  for (const fs::path& checkpoint : checkpoints) {
    const std::string problem = problem_of(checkpoint);
    if (problem.empty()) {
      say(launch, checkpoint.string() + ": ok, " + human_bytes(bytes_of(checkpoint)) + "\n");
    } else {
      report("DAMAGED: " + problem);
    }
  }
  require_none(problems, target);
}

// "parameters": "6 arrays, 55 kB"
std::vector<Row> summary_of(const std::vector<ArrayInfo>& arrays) {
  struct Sum {
    std::int64_t arrays = 0;
    std::size_t bytes = 0;
  };
  std::map<std::string, Sum> groups;
  for (const ArrayInfo& info : arrays) {
    Sum& sum = groups[info.name.substr(0, info.name.find('/'))];
    ++sum.arrays;
    sum.bytes += info.size_bytes();
  }
  std::vector<Row> rows;
  for (const auto& [name, sum] : groups) {
    rows.push_back({name, plural(sum.arrays, "array") + ", " +
                              human_bytes(static_cast<std::int64_t>(sum.bytes))});
  }
  return rows;
}

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

void show(const CommandLine& line, Launch& launch) {
  const fs::path path = find_checkpoint(line.target, Wanted::kNewest);
  const CheckpointReader reader(path);
  const StateDocument document = parse_state(reader.state(), path.string());
  const TrainingState& state = document.state;
  const std::string nodes =
      document.num_nodes > 0 ? " on " + plural(document.num_nodes, "node") : std::string();
  std::vector<Row> rows{
      {"step", std::to_string(state.step)},
      {"epoch", number(document.epoch)},
      {"best metric", state.best_metric ? number(*state.best_metric) + " after step " +
                                              std::to_string(state.best_step)
                                        : "none"},
      {"made by", plural(document.world_size, "rank") + nodes},
      {"written", written_at(path)},
      {"size", human_bytes(bytes_of(path))}};
  for (Row& row : summary_of(reader.arrays())) rows.push_back(std::move(row));
  std::string text = path.string() + "\n" + indented(aligned(rows));
  if (line.arrays) {
    std::vector<Row> table;
    for (const ArrayInfo& info : reader.arrays()) {
      table.push_back({info.name, array_text(name_of(info.dtype), info.shape),
                       std::to_string(info.size_bytes()) + " bytes"});
    }
    text += "arrays\n" + indented(aligned(table));
  }
  const auto environment = nlohmann::ordered_json::parse(document.environment);
  text +=
      "configuration\n" + indented(document.config) + "environment\n" +
      indented(environment.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  say(launch, text);
}

void diff(const CommandLine& line, const Registry& registry, Launch& launch) {
  const CheckpointDiff found =
      diff_checkpoints(find_checkpoint(line.target, Wanted::kNewest),
                       find_checkpoint(line.other, Wanted::kNewest), registry);
  say(launch, found.text + (found.equal ? "arrays and training state are equal\n" : ""));
  if (!found.equal) {
    throw CheckpointError(line.target + " and " + line.other +
                          " differ in arrays or training state, as listed above");
  }
}

}  // namespace

int inspect_checkpoints(const CommandLine& line, const Registry& registry, Launch& launch) {
  Communicator& world = launch.world();
  // The others wait for rank 0, however much there is to read; where it dies, the launcher ends
  // them.
  world.set_timeout(std::chrono::hours(24));
  collectively(world, [&] {
    if (world.rank() != 0) return;
    if (line.command == Command::kCheckpointList) list(line, launch);
    if (line.command == Command::kCheckpointShow) show(line, launch);
    if (line.command == Command::kCheckpointVerify) verify(line, launch);
    if (line.command == Command::kCheckpointDiff) diff(line, registry, launch);
  });
  return 0;
}

}  // namespace trireme
