// SPDX-License-Identifier: Apache-2.0
#include "app/commands.hpp"

#include <filesystem>
#include <optional>

#include <nlohmann/json.hpp>

#include "app/bench_comm.hpp"
#include "app/declared.hpp"
#include "app/doctor.hpp"
#include "app/environment.hpp"
#include "app/estimate.hpp"
#include "app/evaluate.hpp"
#include "app/export.hpp"
#include "app/failure.hpp"
#include "app/inspect.hpp"
#include "app/length_checks.hpp"
#include "app/resume.hpp"
#include "app/session.hpp"
#include "app/shared_directory.hpp"
#include "app/sinks.hpp"
#include "app/source.hpp"
#include "app/start_up.hpp"
#include "app/time_limit.hpp"
#include "app/verify_resume.hpp"
#include "base/inject.hpp"
#include "base/stop.hpp"
#include "base/text.hpp"
#include "checkpoint/archive.hpp"
#include "checkpoint/run_directory.hpp"
#include "comm/agree.hpp"
#include "comm/shared_error.hpp"

namespace trireme {
namespace {

namespace fs = std::filesystem;

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
    sinks.fail(tell_failure(failure, launch));
    return launch.fail(static_cast<int>(failure.code));
  }
  return static_cast<int>(end.status == "stopped" ? ExitCode::kStopped : ExitCode::kOk);
}

struct TrainRequest {
  Config config;
  std::string original_text;
  std::optional<RunDirectory> directory;  // rank 0's, of a run that is to go on
  std::string checkpoint;
  bool dry_run = false;
  std::string program;     // as it was called, for what is said at the end
  int ranks_per_node = 0;  // as CommandLine's
};

// Collective. Rank 0's directory of the run. A new one holds nothing yet.
void open_directory(TrainRequest& request, std::optional<RunDirectory>& directory,
                    Communicator& world) {
  collectively(world, [&] {
    if (world.rank() != 0) return;
    if (request.directory) {
      directory.emplace(std::move(*request.directory));
    } else {
      directory.emplace(RunDirectory::create(request.config.run.dir));
    }
  });
  if (request.config.run.shared) require_shared_directory(request.config.run.dir, world);
}

// What is said at the end: how to go on.
std::string way_on(const TrainRequest& request) {
  const std::string& dir = request.config.run.dir;
  const std::string nodes = request.ranks_per_node > 0
                                ? " --ranks-per-node " + std::to_string(request.ranks_per_node)
                                : std::string();
  return "everything is in " + dir + "; go on with `" + request.program + " resume " + dir + nodes +
         "`, look again with `" + request.program + " eval " + dir + "`\n";
}

void restore(Trainer& trainer, const Session& session, const std::string& checkpoint,
             Launch& launch) {
  if (checkpoint.empty()) return;
  const StateDocument document = trainer.restore(checkpoint);
  say(launch, "resumed from " + checkpoint + " (step " + std::to_string(document.state.step) +
                  ", made by " + plural(document.world_size, "rank") + ")\n");
  const std::string warning =
      warning_of_nodes(document.num_nodes, session.num_nodes(), session.key_between_nodes());
  if (!warning.empty() && launch.world().rank() == 0) warn(warning);
  if (trainer.done() && !document.state.evaluation_pending)
    say(launch,
        "the run had finished already: nothing is left to train; larger train.epochs and "
        "train.max_steps go on\n");
}

// Rank 0 has them.
void say_initial_weights(const std::optional<InitialWeights>& weights, Launch& launch) {
  if (weights) say(launch, weights->text);
}

int train(TrainRequest request, const Registry& registry, Launch& launch) {
  Communicator& world = launch.world();
  const Started started =
      start_up(launch, request.config, request.dry_run ? "cpu" : request.config.run.device);
  const TimeLimit limit =
      request.dry_run ? TimeLimit() : limit_of_rank_0(request.config.run, world);
  // Found before the data is read: what is wrong with the directory.
  const bool fresh = !request.directory;
  std::optional<RunDirectory> directory;  // rank 0's
  if (!request.dry_run) open_directory(request, directory, world);
  Session session(request.config, registry, world, warn, started.device);
  check_length(session, world, request.dry_run || world.placement().num_nodes > 1);
  if (request.dry_run) {
    if (request.checkpoint.empty()) say_initial_weights(session.check_initial_weights(), launch);
    say(launch, estimate_text(session, world));
    return 0;
  }
  if (!limit.text().empty()) say(launch, limit.text() + "\n");
  std::string environment = started.environment.json;
  collectively(world, [&] {
    if (world.rank() != 0) return;
    if (fs::exists(directory->file("env.json")))
      environment =
          keep_found_at_start(RunDirectory::read(directory->path(), "env.json"), environment);
  });
  std::optional<StopSignals> signals;  // from the moment on at which somebody looks at them
  Sinks sinks;
  Trainer& trainer = session.make_trainer(
      {.observer = &sinks.observer(),
       .checkpoints = fs::path(request.config.run.dir) / "checkpoints",
       .environment = environment,
       .host = launch.host(),
       .from_step_0 = request.checkpoint.empty(),
       .stop_requested = [&] { return (signals && signals->stop_requested()) || limit.reached(); },
       .take_save_request = take_save_request});
  if (const std::int64_t samples = session.data().train->size();
      world.rank() == 0 && session.config().train.global_batch > samples) {
    warn("train.global_batch " + std::to_string(session.config().train.global_batch) +
         " is more than the " + std::to_string(samples) +
         " training samples: each step takes them all");
  }
  say_initial_weights(session.initial_weights(), launch);
  if (const auto& buckets = session.buckets(); buckets && !buckets->text.empty())
    say(launch, buckets->text + "\n");
  const std::string idle = session.num_nodes() == 1 ? session.key_between_nodes() : std::string();
  if (!idle.empty() && world.rank() == 0) {
    warn(idle + " acts between nodes, and there is one: no effect");
    launch.note("warning: " + idle + " acts between nodes, and there is one: no effect");
  }
  say(launch, between_nodes_text(session.config().parallel, session.num_nodes()));
  restore(trainer, session, request.checkpoint, launch);
  signals.emplace();
  // Not before all is well: a start that fails leaves no run, a resume that fails the run as it
  // was.
  collectively(world, [&] {
    if (world.rank() != 0) return;
    directory->keep();
    directory->write("config.yaml", dump_config(session.config()));
    if (fresh) directory->write("config.orig.yaml", request.original_text);
    directory->write("env.json", session.environment(environment) + "\n");
    sinks.open(session.config(), *directory,
               {.checkpoint = request.checkpoint,
                .plain = launch.under_launcher(),
                .before = launch.said(),
                .warnings = [&launch] { return launch.watchdog()->take_warnings(); }});
  });
  const int code = train_guarded(trainer, sinks, launch);
  const bool went_well =
      code == static_cast<int>(ExitCode::kOk) || code == static_cast<int>(ExitCode::kStopped);
  if (!went_well) return code;
  say(launch, way_on(request));
  return code;
}

void warn_of_new_schedule(const Config& before, const Config& after, const Communicator& world) {
  if (world.rank() == 0 && stretches_schedule(before, after)) {
    warn("the length of the run has changed, and the schedule '" + after.schedule.name +
         "' spans it: rates go on as if it had been so from the start; to keep the old ones set "
         "schedule.duration to the old length in " +
         after.schedule.unit);
  }
}

// A run without a checkpoint may be started again, unless it has had one: then its folder was
// emptied, or is not mounted, and to start again would lose its curves as well.
void require_none_lost(const fs::path& path) {
  std::error_code error;
  std::string had;
  for (const char* name : {"latest", "best"}) {
    const fs::path link = path / "checkpoints" / name;
    if (fs::is_symlink(fs::symlink_status(link, error))) had = link.string() + " names one";
  }
  if (had.empty() && fs::exists(fs::symlink_status(path / "state.json", error))) {
    const auto state = nlohmann::json::parse(RunDirectory::read(path, "state.json"), nullptr,
                                             /*allow_exceptions=*/false);
    if (state.is_object() && !state.value("checkpoint", nlohmann::json("")).empty() &&
        state["checkpoint"] != "")
      had = "state.json names one";
  }
  if (had.empty()) return;
  throw CheckpointError(
      (path / "checkpoints").string() + " holds no checkpoint, but " + had +
      ": the folder was emptied, or is not mounted; bring it back, or start a new run in another "
      "run.dir");
}

std::optional<fs::path> find_to_go_on_from(const fs::path& run) {
  const fs::path folder = run / "checkpoints";
  if (list_checkpoints(folder).empty()) {
    require_none_lost(run);
    return std::nullopt;
  }
  try {
    return find_newest_good(folder, warn);
  } catch (const CheckpointError& error) {
    throw CheckpointError(std::string(error.what()) +
                          "\nstarting over would lose the run; remove them first if that is what "
                          "you want");
  }
}

// What the run in `path` goes on from. It is locked from here on, but not for a dry run, which may
// look at a run that is training.
Source find_run(const fs::path& path, bool dry_run, std::optional<RunDirectory>& directory) {
  RunDirectory::require_run(path);
  if (!dry_run) directory = RunDirectory::open(path, warn);
  const std::optional<fs::path> found = find_to_go_on_from(path);
  return {.file = (path / "config.yaml").string(),
          .text = RunDirectory::read(path, "config.yaml"),
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
  Config after = read_config(source, changes_of(line), registry, world).config;
  collectively(world, [&] {
    if (after.run.dir != before.run.dir) {
      throw ConfigError("command line: run.dir: a run stays in its directory; move " + run_dir +
                        " yourself and resume it there, or start a new run");
    }
    if (!line.allow_changes) require_resumable(before, after);
    warn_of_new_schedule(before, after, world);
  });
  after.run.dir = run_dir;  // which may have been moved since
  return train({.config = after,
                .original_text = {},
                .directory = std::move(directory),
                .checkpoint = source.checkpoint,
                .dry_run = line.dry_run,
                .program = line.program,
                .ranks_per_node = line.ranks_per_node},
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
  if (found.file.empty()) return;
  collectively(world, [&] {
    Config before = parse_config({.file = found.file, .text = found.text, .overrides = {}},
                                 declared_options(registry))
                        .config;
    before.run.dir = run_dir;  // which may have been moved since
    // What the run chose for itself stays.
    if (request.config.parallel.bucket_mb == 0)
      request.config.parallel.bucket_mb = before.parallel.bucket_mb;
    if (!line.allow_changes) require_resumable(before, request.config);
    warn_of_new_schedule(before, request.config, world);
  });
  request.checkpoint = found.checkpoint;
}

int command_train(const CommandLine& line, const Registry& registry, Launch& launch) {
  Communicator& world = launch.world();
  const Source source = named_file(line, world);
  const ReadConfig read = read_config(source, changes_of(line), registry, world);
  if (line.print_config) {
    say(launch, dump_config(read.config, &read.origin));
    return 0;
  }
  TrainRequest request{.config = read.config,
                       .original_text = source.text,
                       .directory = std::nullopt,
                       .checkpoint = {},
                       .dry_run = line.dry_run,
                       .program = line.program,
                       .ranks_per_node = line.ranks_per_node};
  if (line.resume_auto) take_up(request, line, registry, world);
  return train(std::move(request), registry, launch);
}

int command_validate(const CommandLine& line, const Registry& registry, Launch& launch) {
  Communicator& world = launch.world();
  const Source source = named_file(line, world);
  const ReadConfig read = read_config(source, changes_of(line), registry, world);
  if (line.print_config) say(launch, dump_config(read.config, &read.origin));
  Session session(read.config, registry, world, warn);
  session.require_fit();
  check_length(session, world, /*apart=*/true);
  say_initial_weights(session.check_initial_weights(), launch);
  say(launch, line.target + ": valid\n" + estimate_text(session, world));
  return 0;
}

}  // namespace

int run_command(const CommandLine& line, const Registry& registry, Launch& launch) {
  switch (line.command) {
    case Command::kTrain:
      return command_train(line, registry, launch);
    case Command::kResume:
      return command_resume(line, registry, launch);
    case Command::kEval:
      return evaluate_checkpoint(line, registry, launch);
    case Command::kValidate:
      return command_validate(line, registry, launch);
    case Command::kVerifyResume:
      return verify_resume(line, registry, launch);
    case Command::kCheckpointList:
    case Command::kCheckpointShow:
    case Command::kCheckpointVerify:
    case Command::kCheckpointDiff:
      return inspect_checkpoints(line, registry, launch);
    case Command::kExport:
      return export_weights(line, registry, launch);
    case Command::kBenchComm:
      return bench_comm(line, registry, launch);
    case Command::kDoctor:
      return doctor(line, registry, launch);
    case Command::kSchema:
      say(launch, config_schema(declared_options(registry)));
      return 0;
    case Command::kReference:
      say(launch, config_reference(declared_options(registry)));
      return 0;
    case Command::kFaults:
      say(launch, fault_reference());
      return 0;
  }
  TRIREME_ASSERT(false, "unknown command");
}

}  // namespace trireme
