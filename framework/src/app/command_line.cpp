// SPDX-License-Identifier: Apache-2.0
#include "app/command_line.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <sstream>
#include <string_view>

#include <CLI/CLI.hpp>

#include "app/faults.hpp"

namespace trireme {
namespace {

struct CommandSpec {
  Command command;
  const char* name;
  const char* help;
  const char* target;  // what its argument is, "[CONFIG]" may be left out; null: it has none
  const char* target_help;
  const char* examples;
  const char* other = nullptr;  // what its second argument is; null: it has none
  const char* other_help = nullptr;
  bool configured = true;  // its target leads to a configuration, whose values may be replaced
};

constexpr std::array<CommandSpec, 15> kCommands{{
    {Command::kTrain, "train", "Train a model; `trainer CONFIG` is short for it", "CONFIG",
     "configuration file (YAML)",
     "  mpirun -np 2 trainer configs/fashion_mnist.yaml\n"
     "  trainer configs/cifar.yaml train.epochs=2 run.dir=runs/short\n"
     "  trainer configs/cifar.yaml --resume auto\n"
     "  trainer configs/cifar.yaml --dry-run\n"},
    {Command::kResume, "resume", "Go on with a run from its newest good checkpoint", "RUN_DIR",
     "run directory",
     "  mpirun -np 2 trainer resume runs/cifar\n  mpirun -np 4 trainer resume runs/cifar "
     "train.epochs=16\n"},
    {Command::kEval, "eval", "Evaluate a run's best (else newest) checkpoint, or one checkpoint",
     "RUN_DIR|CHECKPOINT", "run directory, or a step-... folder in it",
     "  mpirun -np 2 trainer eval runs/cifar\n  trainer eval "
     "runs/cifar/checkpoints/step-00000200\n"},
    {Command::kValidate, "validate", "Check a configuration without training", "CONFIG",
     "configuration file (YAML)", "  trainer validate configs/cifar.yaml optimizer.lr=0.1\n"},
    {Command::kVerifyResume, "verify-resume",
     "Prove that a run that is killed and resumed ends as one that is not", "CONFIG",
     "configuration file (YAML)",
     "  trainer verify-resume configs/cifar.yaml --launch \"mpirun -np 2\"\n"
     "  trainer verify-resume configs/cifar.yaml --steps 20+20 --launch \"srun --mpi=pmix\"\n"
     "\nTrains K+M steps three times: undisturbed, killed with SIGKILL after the first checkpoint, "
     "and\n"
     "resumed. Exit code 0 where the results are the same bit for bit, else 4. Not to be started "
     "by\n"
     "mpirun itself.\n"},
    {Command::kCheckpointList, "ckpt ls", "List a run's checkpoints: step, size, when, and marks",
     "RUN_DIR|CHECKPOINTS", "run directory, or its folder checkpoints/",
     "  trainer ckpt ls runs/cifar\n  trainer ckpt ls runs/cifar --verify\n", nullptr, nullptr,
     false},
    {Command::kCheckpointShow, "ckpt show", "Print what a checkpoint holds", "CHECKPOINT",
     "a step-... folder; of a run directory its newest checkpoint that verifies",
     "  trainer ckpt show runs/cifar/checkpoints/step-00000200 --arrays\n"
     "  trainer ckpt show runs/cifar/checkpoints/best\n",
     nullptr, nullptr, false},
    {Command::kCheckpointVerify, "ckpt verify", "Check every hash and the structure of checkpoints",
     "RUN_DIR|CHECKPOINT", "run directory, its folder checkpoints/, or a step-... folder in it",
     "  trainer ckpt verify runs/cifar\n\nExit code 4 where one is damaged.\n", nullptr, nullptr,
     false},
    {Command::kCheckpointDiff, "ckpt diff", "Compare two checkpoints", "A",
     "a step-... folder; of a run directory its newest checkpoint that verifies",
     "  trainer ckpt diff runs/a runs/b\n"
     "  trainer ckpt diff runs/a/checkpoints/step-00000100 runs/a/checkpoints/latest\n"
     "\nExit code 0 where all arrays and the training state are equal, bit for bit, else 4. What "
     "differs\n"
     "in the configuration is listed, and does not count.\n",
     "B", "the checkpoint to compare with, named likewise", false},
    {Command::kExport, "export", "Write a checkpoint's weights for other programs", "CHECKPOINT",
     "a step-... folder; of a run directory its newest checkpoint that verifies",
     "  trainer export runs/cifar weights.safetensors --best\n"
     "  trainer export runs/cifar/checkpoints/step-00000200 weights.pt\n"
     "\nParameters and buffers under the model's names. A .pt is for "
     "torch.load(weights_only=True).\n",
     "OUT", "file to write: NAME.safetensors or NAME.pt", false},
    {Command::kBenchComm, "bench comm", "Measure all-reduce between the ranks, by size", "[CONFIG]",
     "configuration (YAML) whose network settings to use; without one Open MPI chooses",
     "  mpirun -np 2 trainer bench comm\n"
     "  mpirun -np 2 trainer bench comm --sizes 4KiB,1MiB --json\n"
     "  mpirun -np 8 trainer bench comm --network configs/network/tcp.yaml\n"
     "\nPrints a line a size: the shortest and the median of 21 sums in microseconds, bytes a "
     "second\n"
     "(algbw), what each link carries of them (busbw), and the share of what a plain copy or "
     "transfer\n"
     "reaches. What takes long is announced on stderr. framework/docs/NETWORK.md explains each "
     "column.\n"},
    {Command::kDoctor, "doctor", "Check what a training needs, with a hint for what is wrong",
     "[CONFIG]", "configuration (YAML) whose run directory and network settings to check",
     "  mpirun -np 2 trainer doctor\n"
     "  mpirun -np 8 trainer doctor configs/cifar.yaml --json\n"
     "\nPrints a line a check: its verdict (ok, warn, fail), what was found, on which ranks where "
     "not on\n"
     "all, and a hint. Exit code 6 where a check fails, else 0. framework/docs/NETWORK.md explains "
     "each\n"
     "line.\n"},
    {Command::kSchema, "schema", "Print the JSON Schema of configuration files", nullptr, nullptr,
     "  trainer schema > trireme.schema.json\n"},
    {Command::kReference, "reference", "Print the reference of all configuration keys (Markdown)",
     nullptr, nullptr, "  trainer reference | less\n"},
    {Command::kFaults, "faults", "Print the points of --inject, which tests use (Markdown)",
     nullptr, nullptr, "  trainer faults | less\n"},
}};

// `trainer CONFIG ...` and `trainer --dry-run CONFIG` mean `trainer train ...`.
std::vector<std::string> with_command(int argc, const char* const* argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) return arguments;
  const std::string& first = arguments.front();
  const bool named = std::any_of(kCommands.begin(), kCommands.end(), [&](const CommandSpec& spec) {
    const std::string_view name = spec.name;
    return first == name.substr(0, name.find(' '));
  });
  const bool global = first == "--help" || first == "-h" || first == "--version";
  if (!named && !global) arguments.insert(arguments.begin(), "train");
  return arguments;
}

// A forgotten '=' or a file name in the wrong place should be said at once, not taken for a key.
std::string check_override(const std::string& text) {
  const auto equals = text.find('=');
  if (equals != std::string::npos && equals > 0) return {};
  return "'" + text + "' is no override; expected key=value, as in optimizer.lr=0.1";
}

// text: a number of bytes, of which whole float32 are summed.
std::string check_floats(const std::string& text) {
  if (std::stoull(text) % sizeof(float) == 0) return {};
  return text + " bytes are no whole number of float32; expected a multiple of 4";
}

constexpr const char* kCheckpointHelp = "List, show, verify and compare checkpoints";

// "bench comm": a command of a command.
CLI::App* add_subcommand(CLI::App& app, const CommandSpec& spec) {
  const std::string name = spec.name;
  const std::size_t space = name.find(' ');
  if (space == std::string::npos) return app.add_subcommand(name, spec.help);
  const std::string first = name.substr(0, space);
  const auto made =
      app.get_subcommands([&](const CLI::App* sub) { return sub->get_name() == first; });
  CLI::App* group = !made.empty()
                        ? made.front()
                        : app.add_subcommand(first, first == "ckpt" ? kCheckpointHelp : spec.help);
  group->require_subcommand(1);
  return group->add_subcommand(name.substr(space + 1), spec.help);
}

void add_target(CLI::App& sub, const CommandSpec& spec, CommandLine& line) {
  const auto set = CLI::Validator(check_override, "");
  const std::string overrides_help =
      "replaces a value of the configuration, as in optimizer.lr=0.1; YAML";
  if (*spec.target == '[') {
    // Without a configuration the first word is an override, too.
    sub.add_option_function<std::vector<std::string>>(
           "CONFIG|KEY=VALUE",
           [&line](std::vector<std::string> words) {
             if (words.front().find('=') == std::string::npos) {
               line.target = words.front();
               words.erase(words.begin());
             }
             for (const std::string& word : words) {
               const std::string problem = check_override(word);
               if (!problem.empty()) throw CLI::ValidationError(problem);
             }
             line.overrides.insert(line.overrides.end(), words.begin(), words.end());
           },
           std::string(spec.target_help) + ", and what " + overrides_help)
        ->option_text("[CONFIG] [KEY=VALUE] ...");
  } else {
    sub.add_option(spec.target, line.target, spec.target_help)->required();
    sub.add_option("KEY=VALUE", line.overrides, overrides_help)->type_name("")->check(set);
  }
  sub.add_option("--set", line.overrides, "the same, where a value would look like an option")
      ->type_name("KEY=VALUE")
      ->check(set);
  sub.add_option(
         "--network", line.network,
         "file of network settings (configs/network/), laid over the configuration's key by key")
      ->type_name("FILE");
}

void add_measuring_options(CLI::App& sub, const CommandSpec& spec, CommandLine& line) {
  sub.add_flag("--json", line.json, "one JSON object a line, for scripts");
  if (spec.command != Command::kBenchComm) return;
  sub.add_option(
         "--sizes", line.sizes,
         "bytes to sum, multiples of 4, as in 4,1KiB,64MiB; by default the powers of 4 from 4 to "
         "64MiB")
      ->type_name("SIZE,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->check(CLI::Range(std::uint64_t{4}, std::uint64_t{1} << 32))
      ->check(CLI::Validator(check_floats, ""));
}

// The arguments and options of commands on checkpoints, which take no configuration.
void add_checkpoints(CLI::App& sub, const CommandSpec& spec, CommandLine& line) {
  sub.add_option(spec.target, line.target, spec.target_help)->required()->type_name("");
  if (spec.other != nullptr)
    sub.add_option(spec.other, line.other, spec.other_help)->required()->type_name("");
  if (spec.command == Command::kCheckpointList)
    sub.add_flag("--verify", line.verify,
                 std::string("check every hash, too; exit code 4 where one is damaged"));
  if (spec.command == Command::kCheckpointShow)
    sub.add_flag("--arrays", line.arrays,
                 std::string("list every array with its type, shape and bytes"));
  if (spec.command != Command::kExport) return;
  sub.add_flag("--best", line.best,
               std::string("of a run directory take the checkpoint that `best` names"));
  sub.add_flag("--force", line.force, std::string("replace the file where it exists"));
}

void add_proof_options(CLI::App& sub, CommandLine& line) {
  sub.add_option("--steps", line.steps, "steps before and after the kill; 5+5 by default")
      ->type_name("K+M");
  sub.add_option("--launch", line.launch,
                 "how ranks are started, as in \"mpirun -np 4\"; by default one rank")
      ->type_name("WORDS");
  sub.add_option("--dir", line.directory,
                 "directory to make for the runs, on the file system to be tried; by default "
                 "verify-resume-PID here")
      ->type_name("DIR");
  sub.add_flag("--keep", line.keep, std::string("keep the runs also where all is well"));
}

void add_command(CLI::App& app, const CommandSpec& spec, CommandLine& line) {
  CLI::App* sub = add_subcommand(app, spec);
  sub->footer(std::string("Examples:\n") + spec.examples);
  sub->callback([&line, &spec] { line.command = spec.command; });
  if (spec.target == nullptr) return;
  if (!spec.configured) {
    add_checkpoints(*sub, spec, line);
    return;
  }
  add_target(*sub, spec, line);
  if (spec.command == Command::kBenchComm || spec.command == Command::kDoctor) {
    add_measuring_options(*sub, spec, line);
  }
  if (spec.command == Command::kVerifyResume) add_proof_options(*sub, line);
  const bool trains = spec.command == Command::kTrain || spec.command == Command::kResume;
  if (trains || spec.command == Command::kEval) add_fault_options(*sub, line.faults);
  if (trains || spec.command == Command::kBenchComm || spec.command == Command::kVerifyResume) {
    sub->add_option("--ranks-per-node", line.ranks_per_node,
                    "take every N ranks of a host as a node of their own: memory is shared, and "
                    "gradients are exact, within a node only; 1: all data travels as messages")
        ->type_name("N")
        ->check(CLI::Range(1, 1 << 20));
  }
  if (spec.command == Command::kTrain || spec.command == Command::kValidate) {
    sub->add_flag("--print-config", line.print_config,
                  "print the resolved configuration with where each value comes from, and end");
  }
  if (trains) {
    sub->add_flag("--dry-run", line.dry_run,
                  "print parameters, memory a rank, steps and checkpoint size, and end");
  }
  if (trains) {
    sub->add_option("--ready-file", line.ready_file,
                    "file that rank 0 makes as soon as all ranks take signals, and removes at the "
                    "end: for scripts that pass signals on")
        ->type_name("FILE");
  }
  if (spec.command == Command::kTrain) {
    sub->add_option_function<std::string>(
           "--resume", [&line](const std::string&) { line.resume_auto = true; },
           "auto: go on from the run directory's newest good checkpoint, or start anew where there "
           "is none")
        ->check(CLI::IsMember({"auto"}));
  }
  if (trains) {
    sub->add_flag(
        "--allow-changes", line.allow_changes,
        "when resuming, accept changes of the configuration that would change the mathematics");
  }
  if (spec.command == Command::kEval) {
    sub->add_option("--split", line.split, "test or validation")
        ->check(CLI::IsMember({"test", "validation"}));
  }
}

std::string hint_for(const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    return "Values of the configuration are set without dashes, as in optimizer.lr=0.1.\n";
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    return "To train, give a configuration file: trainer CONFIG\n";
  }
  return {};
}

}  // namespace

ParsedCommandLine parse_command_line(int argc, const char* const* argv,
                                     const std::string& version_text) {
  ParsedCommandLine parsed;
  parsed.command_line.program = argc > 0 ? argv[0] : "trainer";
  CLI::App app{
      "Trireme: trains one model on all ranks that mpirun starts.\n"
      "  trainer CONFIG [key=value ...]",
      "trainer"};
  app.set_version_flag("--version", version_text);
  app.require_subcommand(1);
  app.footer(
      "Run `trainer COMMAND --help` for a command's options and examples.\n"
      "Exit codes: 0 done, 2 usage or configuration, 3 data, 4 checkpoint or file, 5 not finite,\n"
      "6 communication or environment, 70 internal, 75 stopped on request and resumable.");
  for (const CommandSpec& spec : kCommands) add_command(app, spec, parsed.command_line);
  std::vector<std::string> arguments = with_command(argc, argv);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    parsed.exit = app.exit(error, out, err) == 0 ? ExitCode::kOk : ExitCode::kUsage;
    parsed.text = out.str() + err.str() + hint_for(error);
  }
  return parsed;
}

}  // namespace trireme
