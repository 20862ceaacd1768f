// SPDX-License-Identifier: Apache-2.0
#include "app/doctor.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <iterator>

#include <nlohmann/json.hpp>

#include "app/doctor_checks.hpp"
#include "app/doctor_files.hpp"
#include "app/source.hpp"
#include "base/files.hpp"
#include "comm/shared_error.hpp"
#include "device/cpu.hpp"

namespace trireme {
namespace {

// What of a configuration the checks depend on; without one these.
struct Wishes {
  std::string run_dir = "runs";
  std::string device = "cpu";
};

std::vector<Finding> examine(Launch& launch, const Wishes& wishes) {
  Communicator& world = launch.world();
  const Nodes nodes = find_nodes(world);
  NetworkDevices devices;
  int threads = 1;
  collectively(world, [&] {
    devices = find_network_devices();
    threads = use_threads();
  });
  std::vector<Finding> findings = check_libraries(launch);
  const auto append = [&](const std::vector<Finding>& more) {
    std::ranges::copy(more, std::back_inserter(findings));
  };
  append(check_gpus(survey_gpus(), {.cuda = cuda_version(),
                                    .nccl = nccl_library(),
                                    .nccl_of_torch = nccl_version_of_torch(),
                                    .ranks = world.placement().local_size,
                                    .wanted = wishes.device == "cuda"}));
  append(check_transport(launch, devices));
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) throw_errno("ask the limit of", "memlock", errno);
  append({check_memlock(limit.rlim_cur, !devices.rdma_ports.empty()),
          check_shared_memory_folder("/dev/shm"), check_cores(world, threads),
          check_addresses(world, nodes, devices, launch.network().config), check_clocks(world)});
  append(check_run_directory(world, wishes.run_dir));
  append({check_all_reduce(world)});
  return findings;
}

int count(const std::vector<Finding>& findings, Verdict verdict) {
  return static_cast<int>(std::ranges::count(findings, verdict, &Finding::verdict));
}

}  // namespace

int doctor(const CommandLine& line, const Registry& registry, Launch& launch) {
  Communicator& world = launch.world();
  Wishes wishes;
  if (!line.target.empty()) {
    const Config config =
        read_config(named_file(line, world), changes_of(line), registry, world).config;
    wishes = {.run_dir = config.run.dir, .device = config.run.device};
  }
  std::vector<Finding> findings = gather_findings(world, examine(launch, wishes));
  require_alike(findings, {"trireme", "libtorch", "instructions", "cuda", "nccl"});
  for (const Finding& finding : findings) {
    say(launch, line.json ? to_json(finding) : to_text(finding, world.size()));
  }
  const int ok = count(findings, Verdict::kOk);
  const int warn = count(findings, Verdict::kWarn);
  const int fail = count(findings, Verdict::kFail);
  if (line.json) {
    const nlohmann::ordered_json total{{"ok", ok}, {"warn", warn}, {"fail", fail}};
    say(launch, total.dump() + "\n");
  } else {
    say(launch, std::to_string(ok) + " ok, " + std::to_string(warn) + " warn, " +
                    std::to_string(fail) + " fail\n");
  }
  return static_cast<int>(fail == 0 ? ExitCode::kOk : ExitCode::kCommunication);
}

}  // namespace trireme
