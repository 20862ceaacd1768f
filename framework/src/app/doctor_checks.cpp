// SPDX-License-Identifier: Apache-2.0
#include "app/doctor_checks.hpp"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>

#include <nlohmann/json.hpp>

#include "app/environment.hpp"
#include "app/estimate.hpp"
#include "base/cores.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "base/version.hpp"
#include "checkpoint/hdf5_version.hpp"
#include "comm/mpi.hpp"
#include "device/cpu.hpp"

namespace trireme {
namespace {

std::string milliseconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f ms", seconds * 1e3);
  return text;
}

double wall_clock() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

Finding check_driver(const GpuSurvey& survey, const GpuNeeds& needs, Verdict missing) {
  if (survey.driver.empty()) {
    return {.check = "gpu driver",
            .verdict = missing,
            .text = "none is loaded",
            .hint = "run.device: cuda needs NVIDIA's driver: look at `nvidia-smi`"};
  }
  const std::string text = "for CUDA up to " + survey.driver;
  // Within a major version any driver does (CUDA's minor version compatibility).
  if (std::stoi(survey.driver) >= std::stoi(needs.cuda))
    return {.check = "gpu driver", .text = text};
  return {.check = "gpu driver",
          .verdict = missing,
          .text = text + ", and this build is for " + needs.cuda,
          .hint = "install a newer driver, or build with an older CUDA"};
}

Finding check_visible_gpus(const GpuSurvey& survey, const GpuNeeds& needs, Verdict missing) {
  const auto visible = static_cast<int>(survey.names.size());
  const std::string text = visible == 0 ? "none is visible" : joined(survey.names);
  // A launcher may give each rank its own: then one is in sight.
  if (visible == 1 || visible >= needs.ranks) return {.check = "gpu", .text = text};
  return {.check = "gpu",
          .verdict = missing,
          .text = text + ", for " + plural(needs.ranks, "rank") + " on this node",
          .hint =
              "run.device: cuda needs one a rank: look at `nvidia-smi` and CUDA_VISIBLE_DEVICES, "
              "or start fewer ranks a node"};
}

Finding check_nccl(const GpuNeeds& needs) {
  Finding finding{.check = "nccl", .text = needs.nccl.running + " (" + needs.nccl.path + ")"};
  try {
    require_one_nccl(needs.nccl, needs.nccl_of_torch);
  } catch (const EnvironmentError& error) {
    finding = {.check = "nccl",
               .verdict = Verdict::kFail,
               .text = error.what(),
               .hint = "a training on GPUs refuses that"};
  }
  return finding;
}

}  // namespace

std::vector<Finding> check_libraries(Launch& launch) {
  std::vector<Finding> findings{
      {.check = "trireme", .text = version()},
      {.check = "libtorch", .text = torch_version()},
      {.check = "instructions", .text = instruction_set()},
      {.check = "hdf5", .text = hdf5_version()},
  };
  const std::string level = launch.under_launcher() ? launch.thread_level()
                                                    : std::string("not started: one rank by hand");
  findings.push_back({.check = "mpi", .text = MpiEnvironment::library_version() + ", " + level});
  return findings;
}

std::vector<Finding> check_gpus(const GpuSurvey& survey, const GpuNeeds& needs) {
  if (needs.cuda.empty()) {
    std::vector<Finding> findings;
    for (const char* part : {"gpu driver", "gpu", "cuda", "cudnn", "nccl"}) {
      findings.push_back({.check = part, .text = "not in this build, which is for CPUs"});
    }
    return findings;
  }
  const Verdict missing = needs.wanted ? Verdict::kFail : Verdict::kWarn;
  return {check_driver(survey, needs, missing),
          check_visible_gpus(survey, needs, missing),
          {.check = "cuda", .text = needs.cuda},
          {.check = "cudnn", .text = survey.cudnn.empty() ? "not in this LibTorch" : survey.cudnn},
          check_nccl(needs)};
}

std::vector<Finding> check_transport(Launch& launch, const NetworkDevices& devices) {
  std::vector<Finding> findings;
  const AppliedNetwork& applied = launch.network().applied;
  std::string text = launch.transport().empty() ? "none: no other ranks" : launch.transport();
  if (!applied.set.empty()) text += "; set " + describe(applied.set);
  findings.push_back({.check = "transport", .text = text});
  if (!applied.kept.empty()) {
    findings.push_back({.check = "transport",
                        .verdict = Verdict::kWarn,
                        .text = describe(applied.kept) + " was set before and wins",
                        .hint = "section network asks for something else: take it out of the "
                                "environment or of mpirun's arguments, or out of the section"});
  }
  const bool none = devices.rdma_ports.empty();
  findings.push_back(
      {.check = "rdma devices",
       .text = none ? "none: no InfiniBand or RoCE port" : joined(devices.rdma_ports)});
  const std::string why = launch.without_node_memory();
  if (!why.empty()) {
    findings.push_back({.check = "node memory",
                        .verdict = Verdict::kWarn,
                        .text = "ranks of a node do not share memory: " + why,
                        .hint = "sums travel as messages, which is slower"});
  } else {
    const int ranks = launch.world().placement().local_size;
    findings.push_back({.check = "node memory",
                        .text = ranks > 1 ? plural(ranks, "rank") + " of this node share memory"
                                          : "one rank on this node"});
  }
  return findings;
}

Finding check_memlock(std::uint64_t limit_bytes, bool has_rdma) {
  if (limit_bytes == RLIM_INFINITY) return {.check = "memlock", .text = "unlimited"};
  const std::string text = human_bytes(static_cast<std::int64_t>(limit_bytes));
  if (!has_rdma) return {.check = "memlock", .text = text + "; only InfiniBand and RoCE need more"};
  return {.check = "memlock",
          .verdict = Verdict::kWarn,
          .text = text + ", and InfiniBand and RoCE lock what they send",
          .hint =
              "raise it to unlimited (/etc/security/limits.conf, or LimitMEMLOCK of the daemon "
              "that starts the ranks)"};
}

Finding check_shared_memory_folder(const std::filesystem::path& folder) {
  struct statvfs status {};
  const std::string note = "; not used: node memory has no name";
  if (statvfs(folder.c_str(), &status) != 0) {
    return {.check = folder.string(), .text = describe_errno(errno) + note};
  }
  const auto size_bytes = static_cast<std::int64_t>(status.f_frsize * status.f_blocks);
  return {.check = folder.string(), .text = human_bytes(size_bytes) + note};
}

Finding check_cores(Communicator& world, int threads) {
  const std::string crowded = oversubscription(world, threads);
  const std::unique_ptr<Communicator> node = world.split_by_node();
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  const int cores = available_cores();
  const std::string text = plural(cores, "core") + " and " + plural(threads, "thread") +
                           " a rank, " + plural(node->size(), "rank") + " on a host of " +
                           plural(online, "core");
  if (!crowded.empty()) {
    return {.check = "cores", .verdict = Verdict::kWarn, .text = text, .hint = crowded};
  }
  if (2L * cores * node->size() > online) return {.check = "cores", .text = text};
  return {.check = "cores",
          .verdict = Verdict::kWarn,
          .text = text + ": more than half lie idle",
          .hint =
              "mpirun binds each rank to a core or socket: give each more with --map-by "
              "ppr:" +
              std::to_string(node->size()) + ":node:PE=" + std::to_string(online / node->size())};
}

Finding check_addresses(const std::vector<std::vector<NetworkInterface>>& all, const Nodes& nodes,
                        int rank, const NetworkConfig& network) {
  const auto& mine = all[static_cast<std::size_t>(rank)];
  // Over several hosts that is an error before MPI starts.
  if (is_loopback_alone(network, {.interfaces = mine, .rdma_ports = {}})) {
    return {.check = "addresses",
            .verdict = Verdict::kWarn,
            .text = describe(mine) + "; the settings leave loopback alone",
            .hint =
                "that serves one host: before ranks are on several, name the interface that joins "
                "them in network.interfaces"};
  }
  const std::vector<std::string>& chosen = network.interfaces;
  const auto is_used = [&](const NetworkInterface& interface) {
    const NetworkDevices alone{.interfaces = {interface}, .rdma_ports = {}};
    return chosen.empty() || std::ranges::any_of(chosen, [&](const std::string& word) {
             return !interfaces_of(alone, word).empty();
           });
  };
  std::string shared;
  for (const NetworkInterface& interface : mine) {
    if (interface.loopback || !is_used(interface)) continue;
    const auto has_same = [&](const std::vector<int>& ranks) {
      const auto& theirs = all[static_cast<std::size_t>(ranks.front())];
      return std::ranges::any_of(theirs, [&](const NetworkInterface& other) {
        return !other.loopback && other.addresses == interface.addresses;
      });
    };
    const auto hosts = std::ranges::count_if(nodes.ranks, has_same);
    if (hosts < 2) continue;
    shared += (shared.empty() ? "" : ", ") + describe(std::vector{interface}) +
              (interface.bridge ? " (a bridge)" : "");
  }
  if (shared.empty()) return {.check = "addresses", .text = describe(mine)};
  return {.check = "addresses",
          .verdict = Verdict::kWarn,
          .text = describe(mine) + "; other hosts have the same " + shared,
          .hint =
              "Open MPI's TCP may take such an address for a way to another host: name the "
              "interface that joins the hosts in network.interfaces"};
}

Finding check_addresses(Communicator& world, const Nodes& nodes, const NetworkDevices& devices,
                        const NetworkConfig& network) {
  nlohmann::json mine = nlohmann::json::array();
  for (const NetworkInterface& interface : devices.interfaces) {
    mine.push_back({interface.name, interface.addresses, interface.loopback, interface.bridge});
  }
  std::vector<std::vector<NetworkInterface>> all;
  for (const std::string& text : world.exchange(mine.dump())) {
    all.emplace_back();
    for (const nlohmann::json& item : nlohmann::json::parse(text)) {
      all.back().push_back(
          {.name = item[0], .addresses = item[1], .loopback = item[2], .bridge = item[3]});
    }
  }
  return check_addresses(all, nodes, world.rank(), network);
}

// In true time every rank leaves after each other one has entered. With d = other - reference:
// other.left - d >= reference.entered and reference.left >= other.entered - d.
ClockDifference clock_difference(const std::vector<BarrierTimes>& reference,
                                 const std::vector<BarrierTimes>& other) {
  double low = other.front().entered - reference.front().left;
  double high = other.front().left - reference.front().entered;
  for (std::size_t i = 1; i < reference.size(); ++i) {
    low = std::max(low, other[i].entered - reference[i].left);
    high = std::min(high, other[i].left - reference[i].entered);
  }
  return {.seconds = (low + high) / 2, .uncertainty = (high - low) / 2};
}

Finding check_clocks(Communicator& world) {
  constexpr int kBarriers = 32;
  constexpr double kMostSeconds = 0.1;
  if (world.size() == 1) return {.check = "clocks", .text = "one rank"};
  std::vector<BarrierTimes> times(kBarriers);
  for (BarrierTimes& barrier : times) {
    barrier.entered = wall_clock();
    world.barrier();
    barrier.left = wall_clock();
  }
  const std::size_t size_bytes = times.size() * sizeof(BarrierTimes);
  std::vector<BarrierTimes> reference, other(kBarriers);
  ClockDifference largest;
  int rank = 0, where = 0;
  for (const std::string& bytes :
       world.exchange({reinterpret_cast<const char*>(times.data()), size_bytes})) {
    std::memcpy(other.data(), bytes.data(), size_bytes);
    if (reference.empty()) reference = other;
    const ClockDifference difference = clock_difference(reference, other);
    if (std::abs(difference.seconds) >= std::abs(largest.seconds) && rank > 0) {
      largest = difference;
      where = rank;
    }
    ++rank;
  }
  const std::string text = "largest difference to rank 0: " + milliseconds_text(largest.seconds) +
                           " +- " + milliseconds_text(largest.uncertainty) + ", rank " +
                           std::to_string(where);
  if (std::abs(largest.seconds) - largest.uncertainty <= kMostSeconds) {
    return {.check = "clocks", .text = text};
  }
  return {.check = "clocks",
          .verdict = Verdict::kWarn,
          .text = text,
          .hint = "times in logs and files cannot be compared: run chrony or ntpd on all hosts"};
}

Finding check_all_reduce(Communicator& world) {
  constexpr std::size_t kCount = 1 << 18;
  std::vector<float> numbers(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    numbers[i] = static_cast<float>(i % 251) + static_cast<float>(world.rank());
  }
  world.all_reduce({numbers.data(), kCount, DType::kF32}).wait();
  const auto size = static_cast<float>(world.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (numbers[i] != size * static_cast<float>(i % 251) + size * (size - 1) / 2) ++wrong;
  }
  if (wrong > 0) {
    return {.check = "all_reduce",
            .verdict = Verdict::kFail,
            .text = std::to_string(wrong) + " of " + std::to_string(kCount) + " sums are wrong",
            .hint = "memory or network corrupts data: do not train on these hosts"};
  }
  return {
      .check = "all_reduce",
      .text = std::to_string(kCount) + " sums over " + plural(world.size(), "rank") + " are right"};
}

}  // namespace trireme
