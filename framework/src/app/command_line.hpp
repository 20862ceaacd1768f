// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/error.hpp"

namespace trireme {

enum class Command {
  kTrain,
  kResume,
  kEval,
  kValidate,
  kVerifyResume,
  kCheckpointList,
  kCheckpointShow,
  kCheckpointVerify,
  kCheckpointDiff,
  kExport,
  kBenchComm,
  kDoctor,
  kSchema,
  kReference,
  kFaults
};

struct CommandLine {
  std::string program;  // as it was called
  Command command = Command::kTrain;
  std::string target;  // the configuration, run directory or checkpoint; bench, doctor: or ""
  std::string other;   // ckpt diff: the checkpoint to compare with; export: the file to write
  std::vector<std::string> overrides;  // "key=value"
  bool print_config = false;
  bool dry_run = false;
  bool resume_auto = false;    // train: go on where the run directory has a checkpoint
  bool allow_changes = false;  // resume: accept changes that would otherwise be refused
  std::string split = "test";  // eval
  std::string ready_file;      // train, resume: made when signals are safe; or ""
  std::string network;         // file of network settings laid over the configuration's; or ""
  int ranks_per_node = 0;      // train, resume, bench comm: of the nodes made of a host; 0: one
  std::vector<std::string> faults;   // train, resume, eval: to inject (base/inject.hpp)
  bool json = false;                 // bench comm, doctor: JSON lines
  bool verify = false;               // ckpt ls: every hash, too
  bool arrays = false;               // ckpt show: every array, too
  bool best = false;                 // export: a run's best checkpoint, not its newest
  bool force = false;                // export: replace the file where it exists
  std::string steps = "5+5";         // verify-resume: before and after the kill
  std::string launch;                // verify-resume: words that start ranks, "mpirun -np 4"; or ""
  std::string directory;             // verify-resume: to make its runs in; or ""
  bool keep = false;                 // verify-resume: also where all is well
  std::vector<std::uint64_t> sizes;  // bench comm: bytes, multiples of 4; empty: its own
};

// What to do, or what to print and the code to end with at once (--help, --version, a usage error).
struct ParsedCommandLine {
  CommandLine command_line;
  std::optional<ExitCode> exit;
  std::string text;  // for stdout where exit is kOk, else for stderr
};

ParsedCommandLine parse_command_line(int argc, const char* const* argv,
                                     const std::string& version_text);

}  // namespace trireme
