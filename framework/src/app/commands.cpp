// SPDX-License-Identifier: Apache-2.0
#include "app/commands.hpp"

#include <filesystem>
#include <iostream>
#include <optional>

#include <c10/util/Exception.h>

#include "app/declared.hpp"
#include "app/environment.hpp"
#include "app/estimate.hpp"
#include "app/resume.hpp"
#include "app/session.hpp"
#include "app/sinks.hpp"
#include "base/stop.hpp"
#include "checkpoint/archive.hpp"
#include "checkpoint/run_directory.hpp"
#include "comm/agree.hpp"
#include "comm/shared_error.hpp"
#include "device/cpu.hpp"
#include "observe/progress_text.hpp"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// What rank 0 found on disk and every rank has to know.
struct Source {
  std::string file;        // for messages
  std::string text;        // of the configuration
  std::string checkpoint;  // to start from; empty: from step 0
};

Source from_rank_0(Communicator& world, const std::function<Source()>& find) {
  Source source;
  collectively(world, [&] {
    if (world.rank() == 0) source = find();
  });
  for (std::string* text : {&source.file, &source.text, &source.checkpoint}) {
    *text = world.exchange(*text).front();
  }
  return source;
}

// "optimizer.lr: 0.1" for every key that has not its default.
std::vector<std::string> set_values(const Config& config) {
  std::vector<std::string> values;
  for (const ConfigDifference& difference : compare_configs(Config{}, config)) {
    values.push_back(difference.key + ": " + difference.after);
  }
  return values;
}

ReadConfig read_config(const Source& source, const std::vector<std::string>& overrides,
                       const Registry& registry, Communicator& world) {
  ReadConfig read;
  collectively(world, [&] {
    read = parse_config({.file = source.file, .text = source.text, .overrides = overrides},
                        declared_options(registry));
  });
  // The text is rank 0's, but overrides are each rank's own.
  collectively(world, [&] { require_equal(world, "the configuration", set_values(read.config)); });
  return read;
}

void say(Launch& launch, const std::string& text) {
  if (launch.world().rank() == 0) std::cout << text << std::flush;
}

std::string plural(std::size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

Environment start_up(Launch& launch, const Config& config) {
  Communicator& world = launch.world();
  world.set_timeout(std::chrono::milliseconds(static_cast<std::int64_t>(config.run.timeout * 1e3)));
  Environment environment;
  int threads = 1;
  collectively(world, [&] { threads = use_threads(); });
  collectively(world, [&] { environment = survey(world, launch.host(), threads); });
  say(launch, "trireme " + plural(environment.hosts.size(), "rank") + " on " +
                  plural(static_cast<std::size_t>(environment.nodes), "node") + ", " +
                  plural(static_cast<std::size_t>(threads), "thread") + " a rank; " +
                  config.data.name + " -> " + config.model.name + ", run directory " +
                  config.run.dir + "\n");
  const std::string crowded = oversubscription(world, threads);
  if (!crowded.empty() && world.rank() == 0) warn(crowded);
  return environment;
}

// The loop itself: from here on an error of one rank alone ends the job on the spot.
int train_guarded(Trainer& trainer, Sinks& sinks, Launch& launch) {
  EndEvent end;
  try {
    end = trainer.run();
  } catch (const SharedError& error) {
    sinks.fail(error.what());
    throw;
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    print_error(failure.message, &launch);
    sinks.fail(failure.message);
    return launch.fail(static_cast<int>(failure.code));
  }
  return static_cast<int>(end.status == "stopped" ? ExitCode::kStopped : ExitCode::kOk);
}

struct TrainRequest {
  Config config;
  std::string original_text;
  std::optional<RunDirectory> directory;  // rank 0's, where it holds the run already
  std::string checkpoint;
  bool dry_run = false;
};

// Rank 0's part: the directory of a new run, and what every start writes.
void prepare_directory(TrainRequest& request, const Session& session, int world_size,
                       const Environment& environment) {
  const bool fresh = !request.directory.has_value();
  if (fresh) request.directory = RunDirectory::create(request.config.run.dir);
  request.directory->require_space(estimate(session, world_size).checkpoint_bytes);
  if (fresh) {
    request.directory->write("config.yaml", dump_config(session.config()));
    request.directory->write("config.orig.yaml", request.original_text);
  }
  request.directory->write("env.json", environment.json + "\n");
}

void restore(Trainer& trainer, const std::string& checkpoint, Launch& launch) {
  if (checkpoint.empty()) return;
  const StateDocument document = trainer.restore(checkpoint);
  say(launch, "resumed from " + checkpoint + " (step " + std::to_string(document.state.step) +
                  ", made by " + plural(static_cast<std::size_t>(document.world_size), "rank") +
                  ")\n");
  if (trainer.done() && !document.state.evaluation_pending)
    say(launch,
        "the run had finished already: nothing is left to train; a larger train.epochs goes on\n");
}

int train(TrainRequest request, const Registry& registry, Launch& launch) {
  Communicator& world = launch.world();
  const Environment environment = start_up(launch, request.config);
  Session session(request.config, registry, world, warn);
  if (request.dry_run) {
    say(launch, to_text(estimate(session, world.size()), session, world.size()));
    return 0;
  }
  collectively(world, [&] {
    if (world.rank() == 0) prepare_directory(request, session, world.size(), environment);
  });
  const StopSignals signals;
  Sinks sinks(session.config(), world.rank() == 0 ? &*request.directory : nullptr,
              request.checkpoint, launch.under_launcher());
  Trainer& trainer =
      session.make_trainer({.observer = &sinks.observer(),
                            .checkpoints = fs::path(request.config.run.dir) / "checkpoints",
                            .environment = environment.json,
                            .stop_requested = [&signals] { return signals.received() != 0; }});
  restore(trainer, request.checkpoint, launch);
  // Not before the checkpoint was taken: a resume that fails must leave the run as it was.
  collectively(world, [&] {
    if (world.rank() == 0) request.directory->write("config.yaml", dump_config(session.config()));
  });
  const int code = train_guarded(trainer, sinks, launch);
  const bool went_well =
      code == static_cast<int>(ExitCode::kOk) || code == static_cast<int>(ExitCode::kStopped);
  if (!went_well) return code;
  say(launch, "everything is in " + request.config.run.dir + "; go on with `trainer resume " +
                  request.config.run.dir + "`, look again with `trainer eval " +
                  request.config.run.dir + "`\n");
  return code;
}

// What the run in `path` goes on from. It is locked from here on, but not for a dry run, which may
// look at a run that is training.
Source find_run(const fs::path& path, bool dry_run, std::optional<RunDirectory>& directory) {
  RunDirectory::require_run(path);
  if (!dry_run) directory = RunDirectory::open(path, warn);
  const std::string config = (path / "config.yaml").string();
  const std::optional<fs::path> found = find_newest_good(path / "checkpoints", warn);
  return {.file = config,
          .text = read_config_text(config),
          .checkpoint = found ? found->string() : std::string()};
}

int command_resume(const CommandLine& line, const Registry& registry, Launch& launch) {
  Communicator& world = launch.world();
  const std::string& run_dir = line.target;
  std::optional<RunDirectory> directory;
  const Source source = from_rank_0(world, [&] {
    Source found = find_run(run_dir, line.dry_run, directory);
    if (found.checkpoint.empty()) {
      throw CheckpointError(run_dir + " holds no checkpoint yet; start it again with `trainer " +
                            found.file + " run.dir=" + run_dir + " --resume auto`");
    }
    return found;
  });
  const Config before = read_config(source, {}, registry, world).config;
  Config after = read_config(source, line.overrides, registry, world).config;
  collectively(world, [&] {
    if (after.run.dir != before.run.dir) {
      throw ConfigError("command line: run.dir: a run stays in its directory; move " + run_dir +
                        " yourself and resume it there, or start a new run");
    }
    if (!line.allow_changes) require_resumable(before, after);
  });
  after.run.dir = run_dir;  // which may have been moved since
  return train({.config = after,
                .original_text = {},
                .directory = std::move(directory),
                .checkpoint = source.checkpoint,
                .dry_run = line.dry_run},
               registry, launch);
}

// --resume auto: where run.dir holds a run already, its directory and checkpoint.
void take_up(TrainRequest& request, const CommandLine& line, const Registry& registry,
             Communicator& world) {
  const std::string& run_dir = request.config.run.dir;
  const Source found = from_rank_0(world, [&]() -> Source {
    if (!RunDirectory::holds_run(run_dir)) return {};
    return find_run(run_dir, line.dry_run, request.directory);
  });
  if (found.text.empty()) return;
  collectively(world, [&] {
    Config before = parse_config({.file = found.file, .text = found.text, .overrides = {}},
                                 declared_options(registry))
                        .config;
    before.run.dir = run_dir;  // which may have been moved since
    if (!line.allow_changes) require_resumable(before, request.config);
  });
  request.checkpoint = found.checkpoint;
}

int command_train(const CommandLine& line, const Registry& registry, Launch& launch) {
  Communicator& world = launch.world();
  const Source source = from_rank_0(world, [&]() -> Source {
    return {.file = line.target, .text = read_config_text(line.target), .checkpoint = {}};
  });
  const ReadConfig read = read_config(source, line.overrides, registry, world);
  if (line.print_config) {
    say(launch, dump_config(read.config, &read.origin));
    return 0;
  }
  TrainRequest request{.config = read.config,
                       .original_text = source.text,
                       .directory = std::nullopt,
                       .checkpoint = {},
                       .dry_run = line.dry_run};
  if (line.resume_auto) take_up(request, line, registry, world);
  return train(std::move(request), registry, launch);
}

// A run directory means its best checkpoint, else its newest good one.
fs::path checkpoint_to_evaluate(const fs::path& target) {
  if (fs::exists(target / "manifest.json")) return target;
  const fs::path checkpoints = target / "checkpoints";
  if (fs::exists(checkpoints / "best")) return fs::canonical(checkpoints / "best");
  if (fs::is_directory(checkpoints)) {
    if (const auto found = find_newest_good(checkpoints, warn)) return *found;
  }
  throw CheckpointError(target.string() + " is no checkpoint and no run directory with one");
}

int command_eval(const CommandLine& line, const Registry& registry, Launch& launch) {
  Communicator& world = launch.world();
  const Source source = from_rank_0(world, [&]() -> Source {
    const fs::path checkpoint = checkpoint_to_evaluate(line.target);
    const CheckpointReader reader(checkpoint);
    return {.file = checkpoint.string() + " (configuration)",
            .text = parse_state(reader.state(), checkpoint.string()).config,
            .checkpoint = checkpoint.string()};
  });
  const Config config = read_config(source, line.overrides, registry, world).config;
  start_up(launch, config);
  Session session(config, registry, world, warn);
  const EvalEvent event = session.evaluate_checkpoint(source.checkpoint, line.split);
  const ProgressText text(config.metric.name, [] { return std::chrono::steady_clock::now(); });
  say(launch, text.eval(event) + "\n" + source.checkpoint + "\n");
  return 0;
}

int command_validate(const CommandLine& line, const Registry& registry, Launch& launch) {
  Communicator& world = launch.world();
  const Source source = from_rank_0(world, [&]() -> Source {
    return {.file = line.target, .text = read_config_text(line.target), .checkpoint = {}};
  });
  const ReadConfig read = read_config(source, line.overrides, registry, world);
  if (line.print_config) say(launch, dump_config(read.config, &read.origin));
  Session session(read.config, registry, world, warn);
  session.require_fit();
  say(launch,
      line.target + ": valid\n" + to_text(estimate(session, world.size()), session, world.size()));
  return 0;
}

}  // namespace

Failure failure_of(const std::exception& error) {
  if (const auto* ours = dynamic_cast<const Error*>(&error)) return {ours->what(), ours->code()};
  if (const auto* torchs = dynamic_cast<const c10::Error*>(&error))
    return {torchs->what_without_backtrace()};
  return {error.what()};
}

void print_error(const std::string& message, Launch* launch) {
  std::string where;
  if (launch != nullptr && launch->world().size() > 1) {
    where = " on rank " + std::to_string(launch->world().rank()) + " (" + launch->host() + ")";
  }
  std::cerr << "trireme: error" + where + ": " + message + "\n" << std::flush;
}

int run_command(const CommandLine& line, const Registry& registry, Launch& launch) {
  switch (line.command) {
    case Command::kTrain:
      return command_train(line, registry, launch);
    case Command::kResume:
      return command_resume(line, registry, launch);
    case Command::kEval:
      return command_eval(line, registry, launch);
    case Command::kValidate:
      return command_validate(line, registry, launch);
    case Command::kSchema:
      say(launch, config_schema(declared_options(registry)));
      return 0;
    case Command::kReference:
      say(launch, config_reference(declared_options(registry)));
      return 0;
  }
  TRIREME_ASSERT(false, "unknown command");
}

}  // namespace trireme
