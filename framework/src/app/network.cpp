// SPDX-License-Identifier: Apache-2.0
#include "app/network.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "app/launch.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "comm/agree.hpp"
#include "comm/mpi.hpp"
#include "comm/shared_error.hpp"
#include "config/read.hpp"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// The file that holds the configuration of what the command is about; "" where there is none.
std::string configuration_file(const CommandLine& line) {
  const fs::path target = line.target;
  switch (line.command) {
    case Command::kResume:
      return target / "config.yaml";
    case Command::kEval: {
      const fs::path of_run = target / "config.yaml";
      const fs::path of_checkpoint = target / ".." / ".." / "config.yaml";
      if (fs::exists(of_run)) return of_run;
      return fs::exists(of_checkpoint) ? of_checkpoint : fs::path();
    }
    case Command::kCheckpointList:
    case Command::kCheckpointShow:
    case Command::kCheckpointVerify:
    case Command::kCheckpointDiff:
    case Command::kExport:
      return {};
    default:
      return target;
  }
}

NetworkConfig read_network(const CommandLine& line) {
  if (line.command == Command::kVerifyResume) return {};  // the runs that it starts read it
  ConfigSource source{
      .file = configuration_file(line), .network_file = line.network, .overrides = line.overrides};
  if (!source.file.empty()) source.text = read_config_text(source.file);
  if (!source.network_file.empty()) source.network_text = read_network_text(source.network_file);
  return parse_network(source);
}

// "network.tcp_links: 2" for every key that has not its default.
std::vector<std::string> set_keys(const NetworkConfig& network) {
  Config config;
  config.network = network;
  std::vector<std::string> lines;
  for (const ConfigDifference& difference : compare_configs(Config{}, config)) {
    lines.push_back(difference.key + ": " + difference.after);
  }
  return lines;
}

void require_library(const NetworkConfig& network) {
  if (!MpiEnvironment::is_open_mpi()) {
    throw ConfigError("network: the settings are for Open MPI, and this is " +
                      MpiEnvironment::library_version() +
                      "; delete them, and set what your library calls them in the environment");
  }
  if (network.transport == "ucx" && !MpiEnvironment::has_ucx()) {
    throw ConfigError(
        "network.transport: this Open MPI has no UCX (`ompi_info` lists no pml ucx); expected tcp "
        "or auto, or another Open MPI");
  }
}

void require_devices(const NetworkConfig& network, const NetworkDevices& devices) {
  const std::vector<std::string> problems = network_problems(
      network, devices, {.name = host_name(), .alone = !launched_on_several_hosts()});
  if (!problems.empty()) throw ConfigError(joined(problems, "\n"));
}

// Where the command is about a run, and what is wrong with its settings stands in its own
// configuration: how to go on here all the same; else "".
std::string hint_of_run(const CommandLine& line, const NetworkConfig& network,
                        const std::string& error) {
  if (line.command != Command::kResume && line.command != Command::kEval) return {};
  const std::string file = configuration_file(line);
  if (file.empty()) return {};
  Config now, of_run;
  now.network = network;
  of_run.network = parse_network({.file = file, .text = read_config_text(file)});
  std::string hint;
  for (const ConfigDifference& stored : compare_configs(Config{}, of_run)) {
    const bool overridden = std::ranges::any_of(
        compare_configs(of_run, now),
        [&](const ConfigDifference& difference) { return difference.key == stored.key; });
    if (overridden || error.find(stored.key + ":") == std::string::npos) continue;
    hint += "\n" + stored.key + ": " + stored.after + " is the run's (" + file +
            "), and may change: give what fits here on the command line, or " + stored.key + "=" +
            stored.before + " for the default";
  }
  return hint;
}

}  // namespace

NetworkSetup prepare_network(const CommandLine& line) {
  NetworkSetup setup;
  try {
    setup.config = read_network(line);
  } catch (const Error& error) {
    if (line.target.empty()) throw ConfigError(error.what());
    setup.unread = error.what();
    return setup;
  }
  if (!MpiEnvironment::launched()) {
    setup.without_mpi = set_keys(setup.config);
    setup.config = {};
    return setup;
  }
  if (set_keys(setup.config).empty()) return setup;
  const NetworkDevices devices = find_network_devices();
  try {
    require_library(setup.config);
    require_devices(setup.config, devices);
  } catch (const ConfigError& error) {
    throw ConfigError(error.what() + hint_of_run(line, setup.config, error.what()));
  }
  setup.applied = apply_network(network_variables(setup.config, devices));
  return setup;
}

std::string warning_of_bridges(const NetworkConfig& network, const NetworkDevices& devices,
                               const std::string& host) {
  if (!network.interfaces.empty() || network.transport == "ucx") return {};
  std::vector<NetworkInterface> bridges = devices.interfaces;
  std::erase_if(bridges, [](const NetworkInterface& interface) { return !interface.bridge; });
  if (bridges.empty()) return {};
  return "host " + host + " has a bridge of its own: " + describe(bridges) +
         "; where other hosts have the same address, Open MPI's TCP may hang from here on: name "
         "the "
         "interface that joins the hosts, as in network.interfaces=[eth0]";
}

void require_network(Communicator& world, const NetworkSetup& setup, const std::string& transport) {
  std::vector<std::string> settings = set_keys(setup.config);
  // A file that only some ranks can read matters only where it sets something.
  if (!any_rank(world, !settings.empty())) return;
  if (!setup.unread.empty()) settings.push_back(setup.unread);
  collectively(world, [&] { require_equal(world, "the network settings", settings); });
  collectively(world, [&] {
    const bool for_tcp = setup.config.transport == "auto" && !setup.config.interfaces.empty();
    if (for_tcp && !transport.starts_with("ob1")) {
      throw ConfigError("network.interfaces: has no effect: Open MPI chose " + transport +
                        " by itself; expected network.transport: ucx or tcp beside it");
    }
  });
}

std::string describe_network(const NetworkSetup& setup, const std::string& transport, int nodes) {
  if (!setup.without_mpi.empty()) {
    return "network: one rank without mpirun sends nothing, so these have no effect: " +
           joined(setup.without_mpi) + "\n";
  }
  const AppliedNetwork& applied = setup.applied;
  if (nodes == 1 && applied.set.empty() && applied.kept.empty()) return {};
  std::string text = "network: MPI's messages travel over " + transport;
  if (!applied.set.empty()) text += "; set " + describe(applied.set);
  text += "\n";
  for (const NetworkVariable& kept : applied.kept) {
    text += "network: " + kept.name + "=" + kept.value +
            " was set before (environment or mpirun) and wins over network." + kept.key + "\n";
  }
  const bool by_mpirun = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
  const bool free = std::getenv("OMPI_MCA_oob_tcp_if_include") == nullptr &&
                    std::getenv("OMPI_MCA_oob_tcp_if_exclude") == nullptr;
  if (nodes > 1 && by_mpirun && free && !setup.config.interfaces.empty()) {
    text +=
        "network: mpirun chooses interfaces for its own connections by itself; for the same: "
        "mpirun --mca oob_tcp_if_include " +
        joined(setup.config.interfaces, ",") + "\n";
  }
  return text;
}

}  // namespace trireme
