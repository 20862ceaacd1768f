// SPDX-License-Identifier: Apache-2.0
#include "app/evaluate.hpp"

#include <chrono>
#include <filesystem>
#include <system_error>

#include "app/find_checkpoint.hpp"
#include "app/resume.hpp"
#include "app/session.hpp"
#include "app/sinks.hpp"
#include "app/source.hpp"
#include "app/start_up.hpp"
#include "checkpoint/archive.hpp"
#include "comm/agree.hpp"
#include "comm/shared_error.hpp"
#include "observe/progress_text.hpp"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// A run that trains meanwhile may remove a checkpoint that was found: then another one is there.
constexpr int kFindAttempts = 10;

Source find_to_evaluate(const fs::path& target) {
  const auto latest = [&] {
    std::error_code none;
    return fs::read_symlink(target / "checkpoints" / "latest", none);
  };
  for (int attempt = 1;; ++attempt) {
    const fs::path before = latest();
    try {
      const fs::path checkpoint = find_checkpoint(target, Wanted::kBestElseNewest);
      const CheckpointReader reader(checkpoint);
      return {.file = checkpoint.string() + " (configuration)",
              .text = parse_state(reader.state(), checkpoint.string()).config,
              .checkpoint = checkpoint.string()};
    } catch (const CheckpointError&) {
      if (latest() == before || attempt == kFindAttempts) throw;
    }
  }
}

EvalEvent evaluate_found(Session& session, Source& source, const CommandLine& line,
                         Communicator& world) {
  for (int attempt = 1;; ++attempt) {
    try {
      return session.evaluate_checkpoint(source.checkpoint, line.split);
    } catch (const SharedError& error) {
      const bool gone = world.rank() == 0 && !fs::exists(source.checkpoint);
      if (!any_rank(world, gone) || attempt == kFindAttempts) throw;
    }
    source = from_rank_0(world, [&] { return find_to_evaluate(line.target); });
  }
}

}  // namespace

int evaluate_checkpoint(const CommandLine& line, const Registry& registry, Launch& launch) {
  Communicator& world = launch.world();
  Source source = from_rank_0(world, [&] { return find_to_evaluate(line.target); });
  const Config config = read_config(source, changes_of(line), registry, world).config;
  if (line.split == "validation") {
    const Config trained = read_config(source, {}, registry, world).config;
    collectively(world, [&] { require_same_split(trained, config); });
  }
  const Started started = start_up(launch, config, config.run.device);
  Session session(config, registry, world, warn, started.device);
  const EvalEvent event = evaluate_found(session, source, line, world);
  const ProgressText text(config.metric.name, [] { return std::chrono::steady_clock::now(); });
  say(launch, text.eval(event) + "\n" + source.checkpoint + "\n");
  return 0;
}

}  // namespace trireme
