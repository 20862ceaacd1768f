// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <thread>
#include <utility>

#include "app/command_line.hpp"
#include "app/commands.hpp"
#include "app/environment.hpp"
#include "app/failure.hpp"
#include "app/faults.hpp"
#include "app/launch.hpp"
#include "app/sinks.hpp"
#include "base/files.hpp"
#include "base/inject.hpp"
#include "base/stack.hpp"
#include "base/stop.hpp"
#include "comm/shared_error.hpp"
#include "device/cpu.hpp"
#include "trireme/app.hpp"

namespace trireme {
namespace {

// Errors that all ranks have agreed on: one prints, all leave in order.
int leave_together(const SharedError& error, Launch& launch) {
  if (launch.world().rank() == 0) print_error(error.what(), nullptr);
  const int code = static_cast<int>(error.code());
  try {
    launch.finish();
  } catch (const CommError&) {
    return launch.fail(code);  // what has been printed is the cause
  }
  return code;
}

// An error of a host before MPI has started: all its ranks have found it, one says it. The others
// wait, so that the launcher hears of the one that has spoken.
int leave_before_mpi(const ConfigError& error) {
  if (launcher_local_rank() == 0) {
    print_error(error.what(), nullptr);
  } else {
    std::this_thread::sleep_for(std::chrono::seconds(5));
  }
  return static_cast<int>(error.code());
}

// The doctor may not live to tell of what keeps MPI from starting.
void warn_before_mpi(const NetworkConfig& network) {
  if (launcher_local_rank() != 0 || !launched_on_several_hosts()) return;
  const std::string text = warning_of_bridges(network, find_network_devices(), host_name());
  if (!text.empty()) warn(text);
}

// While it lives a file says that all ranks take signals. (Each has done remember_requests() before
// it came here.)
class ReadyFile {
 public:
  // Collective. path: of a file on rank 0's host; "": none.
  ReadyFile(const std::string& path, Communicator& world) {
    collectively(world, [&] {
      if (path.empty() || world.rank() != 0) return;
      open_file(path, O_WRONLY | O_CREAT | O_TRUNC).close(path);
      path_ = path;
    });
  }
  ~ReadyFile() {
    std::error_code gone;
    if (!path_.empty()) std::filesystem::remove(path_, gone);
  }
  ReadyFile(const ReadyFile&) = delete;
  ReadyFile& operator=(const ReadyFile&) = delete;

 private:
  std::filesystem::path path_;  // empty: there is nothing to remove
};

// So would each rank of a launcher that MPI does not know: a training of its own.
int leave_alone(const std::string& why) {
  if (launcher_rank() == 0) print_error(why, nullptr);
  return static_cast<int>(ExitCode::kCommunication);
}

int run_launched(const CommandLine& command_line, const Registry& registry) {
  if (const std::string why = MpiEnvironment::wrong_launcher(); !why.empty())
    return leave_alone(why);
  NetworkSetup network;
  try {
    network = prepare_network(command_line);
  } catch (const ConfigError& error) {
    return leave_before_mpi(error);
  }
  if (command_line.command == Command::kDoctor) warn_before_mpi(network.config);
  std::unique_ptr<Launch> launch;
  try {
    launch = std::make_unique<Launch>(std::move(network),
                                      MpiOptions{.ranks_per_node = command_line.ranks_per_node});
    require_network(launch->world(), launch->network(), launch->transport());
    arm_faults(command_line.faults, *launch);
    fault_point(FaultPoint::kStartLaunch);
    const int code = [&] {
      const ReadyFile ready(command_line.ready_file, launch->world());
      return run_command(command_line, registry, *launch);
    }();
    fault_point(FaultPoint::kEnd);
    warn_of_faults_not_reached();
    launch->finish();
    return code;
  } catch (const SharedError& error) {
    return leave_together(error, *launch);
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    if (launch != nullptr) {
      tell_failure(failure, *launch);
    } else {
      print_error(failure.message, nullptr);
    }
    const int code = static_cast<int>(failure.code);
    return launch != nullptr ? launch->fail(code) : code;
  }
}

}  // namespace

int run(int argc, char** argv, const Registry& registry) {
  remember_requests();
  try {
    keep_memory();
    report_crashes("rank " + std::to_string(launcher_rank()) + " (" + host_name() + ")");
    std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit then fails the write, which says so
    const ParsedCommandLine parsed = parse_command_line(argc, argv, version_text());
    if (!parsed.exit) return run_launched(parsed.command_line, registry);
    if (launcher_rank() == 0)
      (*parsed.exit == ExitCode::kOk ? std::cout : std::cerr) << parsed.text << std::flush;
    return static_cast<int>(*parsed.exit);
  } catch (const std::exception& error) {
    print_error(error.what(), nullptr);
    return static_cast<int>(ExitCode::kInternal);
  }
}

}  // namespace trireme
