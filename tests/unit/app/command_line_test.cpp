// SPDX-License-Identifier: Apache-2.0
#include "app/command_line.hpp"

#include <gtest/gtest.h>

namespace trireme {
namespace {

ParsedCommandLine parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "trainer");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data(), "version text");
}

TEST(CommandLine, AConfigurationAloneMeansTrain) {
  const ParsedCommandLine parsed = parse({"a.yaml", "optimizer.lr=0.1", "data.mean=[0.5, 0.5]"});
  ASSERT_FALSE(parsed.exit) << parsed.text;
  EXPECT_EQ(parsed.command_line.command, Command::kTrain);
  EXPECT_EQ(parsed.command_line.target, "a.yaml");
  EXPECT_EQ(parsed.command_line.overrides,
            (std::vector<std::string>{"optimizer.lr=0.1", "data.mean=[0.5, 0.5]"}));
}

TEST(CommandLine, OptionsMayComeBeforeTheConfiguration) {
  const ParsedCommandLine parsed = parse({"--dry-run", "a.yaml", "--set", "run.name=-x"});
  ASSERT_FALSE(parsed.exit) << parsed.text;
  EXPECT_TRUE(parsed.command_line.dry_run);
  EXPECT_EQ(parsed.command_line.overrides, (std::vector<std::string>{"run.name=-x"}));
}

TEST(CommandLine, KnowsEachCommandAndItsOptions) {
  EXPECT_EQ(parse({"resume", "runs/a"}).command_line.command, Command::kResume);
  EXPECT_TRUE(parse({"resume", "runs/a", "--allow-changes"}).command_line.allow_changes);
  EXPECT_TRUE(parse({"a.yaml", "--resume", "auto"}).command_line.resume_auto);
  for (const char* command : {"train", "resume"})
    EXPECT_EQ(parse({command, "a", "--ready-file", "r"}).command_line.ready_file, "r");
  EXPECT_EQ(parse({"eval", "runs/a", "--split", "validation"}).command_line.split, "validation");
  EXPECT_TRUE(parse({"validate", "a.yaml", "--print-config"}).command_line.print_config);
  EXPECT_EQ(parse({"a.yaml", "--network", "n.yaml"}).command_line.network, "n.yaml");
  EXPECT_EQ(parse({"doctor"}).command_line.command, Command::kDoctor);
  EXPECT_TRUE(parse({"doctor", "--json"}).command_line.json);
  EXPECT_EQ(parse({"schema"}).command_line.command, Command::kSchema);
  EXPECT_EQ(parse({"reference"}).command_line.command, Command::kReference);
}

TEST(CommandLine, FaultsHaveToBeEnabledAndMayBeSeveral) {
  const std::string kill = "rank=1,point=forward,hit=3,action=kill";
  const std::string full = "rank=0,point=log.write,action=enospc";
  for (const char* command : {"train", "resume", "eval"}) {
    const CommandLine line = parse({command, "x", "--enable-fault-injection", "--inject",
                                    kill.c_str(), "--inject", full.c_str(), "run.seed=1"})
                                 .command_line;
    EXPECT_EQ(line.faults, (std::vector<std::string>{kill, full}));
    EXPECT_EQ(line.overrides, (std::vector<std::string>{"run.seed=1"}));
    const ParsedCommandLine secret = parse({command, "x", "--inject", kill.c_str()});
    EXPECT_EQ(secret.exit, ExitCode::kUsage);
    EXPECT_NE(secret.text.find("--enable-fault-injection"), std::string::npos) << secret.text;
  }
  EXPECT_EQ(parse({"x", "--enable-fault-injection", "--inject", "rank=1"}).exit, ExitCode::kUsage);
  EXPECT_EQ(parse({"validate", "x", "--enable-fault-injection"}).exit, ExitCode::kUsage);
  EXPECT_EQ(parse({"faults"}).command_line.command, Command::kFaults);
}

TEST(CommandLine, BenchAndDoctorNeedNoConfiguration) {
  for (const char* command : {"bench", "doctor"}) {
    std::vector<const char*> words{command};
    if (words[0] == std::string("bench")) words.push_back("comm");
    EXPECT_EQ(parse(words).command_line.target, "");
    words.push_back("network.transport=tcp");
    const CommandLine alone = parse(words).command_line;
    EXPECT_EQ(alone.target, "");
    EXPECT_EQ(alone.overrides, (std::vector<std::string>{"network.transport=tcp"}));
    words.insert(words.end() - 1, "a.yaml");
    const CommandLine both = parse(words).command_line;
    EXPECT_EQ(both.target, "a.yaml");
    EXPECT_EQ(both.overrides, (std::vector<std::string>{"network.transport=tcp"}));
  }
}

TEST(CommandLine, CommandsOnCheckpointsTakeNoConfiguration) {
  EXPECT_EQ(parse({"ckpt", "ls", "runs/a"}).command_line.command, Command::kCheckpointList);
  EXPECT_TRUE(parse({"ckpt", "ls", "runs/a", "--verify"}).command_line.verify);
  EXPECT_TRUE(parse({"ckpt", "show", "step-00000001", "--arrays"}).command_line.arrays);
  EXPECT_EQ(parse({"ckpt", "verify", "runs/a"}).command_line.command, Command::kCheckpointVerify);
  const CommandLine line = parse({"ckpt", "diff", "runs/a", "runs/b"}).command_line;
  EXPECT_EQ(line.command, Command::kCheckpointDiff);
  EXPECT_EQ(line.target, "runs/a");
  EXPECT_EQ(line.other, "runs/b");
  const CommandLine out =
      parse({"export", "runs/a", "w.safetensors", "--best", "--force"}).command_line;
  EXPECT_EQ(out.command, Command::kExport);
  EXPECT_EQ(out.other, "w.safetensors");
  EXPECT_TRUE(out.best && out.force);
  EXPECT_EQ(parse({"ckpt", "ls", "runs/a", "optimizer.lr=1"}).exit, ExitCode::kUsage);
  EXPECT_NE(parse({"ckpt", "--help"}).text.find("Compare two checkpoints"), std::string::npos);
}

TEST(CommandLine, SizesOfTheBenchmarkAreBytesWithOrWithoutUnits) {
  const CommandLine line =
      parse({"bench", "comm", "--sizes", "4,1KiB,64MiB,1MB", "--ranks-per-node", "1", "--json"})
          .command_line;
  EXPECT_EQ(line.command, Command::kBenchComm);
  EXPECT_EQ(line.sizes, (std::vector<std::uint64_t>{4, 1024, 64 << 20, 1'000'000}));
  EXPECT_EQ(line.ranks_per_node, 1);
  EXPECT_TRUE(line.json);
}

TEST(CommandLine, HelpAndVersionEndWithSuccess) {
  const ParsedCommandLine version = parse({"--version"});
  EXPECT_EQ(version.exit, ExitCode::kOk);
  EXPECT_EQ(version.text, "version text\n");
  for (const std::vector<const char*>& arguments :
       {std::vector<const char*>{"--help"}, {"eval", "--help"}}) {
    const ParsedCommandLine help = parse(arguments);
    EXPECT_EQ(help.exit, ExitCode::kOk);
    EXPECT_NE(help.text.find("eval"), std::string::npos);
  }
}

TEST(CommandLine, HelpOfTheBenchmarkSaysWhatItMeasuresByDefault) {
  const std::string help = parse({"bench", "comm", "--help"}).text;
  for (const char* part : {"powers of 4", "algbw", "busbw", "NETWORK.md", "CONFIG|KEY=VALUE"})
    EXPECT_NE(help.find(part), std::string::npos) << part << "\n" << help;
}

TEST(CommandLine, MistakesAreUsageErrorsThatSayWhat) {
  const auto refused = [](std::vector<const char*> arguments, const std::string& word) {
    const ParsedCommandLine parsed = parse(std::move(arguments));
    EXPECT_EQ(parsed.exit, ExitCode::kUsage);
    EXPECT_NE(parsed.text.find(word), std::string::npos) << parsed.text;
  };
  refused({}, "subcommand");
  refused({"train"}, "CONFIG");
  refused({"a.yaml", "b.yaml"}, "b.yaml");
  refused({"a.yaml", "--dry-rum"}, "--dry-rum");
  refused({"a.yaml", "--resume", "always"}, "always");
  refused({"eval", "runs/a", "--split", "train"}, "train");
  refused({"bench"}, "subcommand");
  refused({"bench", "comm", "--sizes", "3"}, "3");
  refused({"bench", "comm", "--sizes", "5"}, "5 bytes are no whole number of float32");
  refused({"bench", "comm", "--sizes", "many"}, "many");
  refused({"doctor", "a.yaml", "b.yaml"}, "b.yaml");
  refused({"ckpt"}, "subcommand");
  refused({"ckpt", "diff", "runs/a"}, "B is required");
  refused({"ckpt", "ls", "runs/a", "--arrays"}, "--arrays");
  refused({"export", "runs/a"}, "OUT is required");
}

}  // namespace
}  // namespace trireme
