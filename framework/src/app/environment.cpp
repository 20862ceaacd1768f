// SPDX-License-Identifier: Apache-2.0
#include "app/environment.hpp"

#include <set>

#include <nlohmann/json.hpp>

#include "base/cores.hpp"
#include "base/text.hpp"
#include "base/version.hpp"
#include "checkpoint/hdf5_version.hpp"
#include "comm/agree.hpp"
#include "comm/mpi.hpp"
#include "comm/nccl.hpp"
#include "device/cpu.hpp"
#include "device/gpu.hpp"
#include "train/initial_weights.hpp"

namespace trireme {
namespace {

// {"UCX_TLS": "tcp,self"}
nlohmann::ordered_json to_json(const std::vector<NetworkVariable>& variables) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const NetworkVariable& variable : variables) json[variable.name] = variable.value;
  return json;
}

std::string or_not_built_in(const std::string& version) {
  return version.empty() ? "not built in" : version;
}

}  // namespace

std::string version_text() {
  const NcclLibrary nccl = nccl_library();
  return std::string("trireme ") + version() + "\n  LibTorch  " + torch_version() + " (CPU, " +
         instruction_set() + ")\n  MPI       " + MpiEnvironment::library_version() +
         "\n  HDF5      " + hdf5_version() + "\n  CUDA      " + or_not_built_in(cuda_version()) +
         "\n  NCCL      " +
         or_not_built_in(nccl.running.empty() ? "" : nccl.running + " (" + nccl.path + ")");
}

Environment survey(Communicator& world, const Whereabouts& where, int threads,
                   const Transport& transport) {
  const std::string nccl = nccl_library().running;
  require_equal(world, "the build and its surroundings",
                {std::string("trireme ") + version(), std::string("LibTorch ") + torch_version(),
                 "CUDA " + or_not_built_in(cuda_version()), "NCCL " + or_not_built_in(nccl),
                 std::string("instruction set ") + instruction_set(),
                 std::to_string(threads) + " threads a rank"});
  Environment environment{
      .hosts = world.exchange(where.host), .threads_per_rank = threads, .json = {}};
  environment.nodes =
      static_cast<int>(std::set(environment.hosts.begin(), environment.hosts.end()).size());
  nlohmann::ordered_json json;
  json["trireme"] = version();
  json["libtorch"] = torch_version();
  json["mpi"] = MpiEnvironment::library_version();
  json["hdf5"] = hdf5_version();
  json["cuda"] = or_not_built_in(cuda_version());
  json["nccl"] = or_not_built_in(nccl);
  json["instruction_set"] = instruction_set();
  json["threads_per_rank"] = threads;
  json["world_size"] = world.size();
  json["communicator"] = world.kind();
  json["mpi_transport"] = transport.messages;
  json["mpi_thread_level"] = transport.thread_level;
  json["network_set"] = to_json(transport.network.set);
  json["network_kept"] = to_json(transport.network.kept);
  json["hosts"] = environment.hosts;
  json["devices"] = world.exchange(where.device);
  environment.json = json.dump(2);
  return environment;
}

std::string with_link(const std::string& json, const Link& link) {
  auto object = nlohmann::ordered_json::parse(json);
  object["link_latency_s"] = link.latency_s;
  object["link_seconds_per_byte"] = link.seconds_per_byte;
  return object.dump(2);
}

std::string with_initial_weights(const std::string& json, const InitialWeights& weights) {
  auto object = nlohmann::ordered_json::parse(json);
  object["init_from"] = {
      {"path", weights.path}, {"arrays", weights.arrays}, {"xxh3_128", weights.hash}};
  return object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string keep_found_at_start(const std::string& before, const std::string& now) {
  const auto old = nlohmann::json::parse(before, nullptr, /*allow_exceptions=*/false);
  auto object = nlohmann::ordered_json::parse(now);
  for (const char* key : {"link_latency_s", "link_seconds_per_byte"}) {
    if (old.is_object() && old.contains(key) && old[key].is_number()) object[key] = old[key];
  }
  if (old.is_object() && old.contains("init_from")) object["init_from"] = old["init_from"];
  return object.dump(2);
}

std::string oversubscription(Communicator& world, int threads) {
  const std::unique_ptr<Communicator> node = world.split_by_node();
  const int cores = count_cores(node->exchange(core_list()));
  const int wanted = node->size() * threads;
  if (wanted <= cores) return {};
  const int fitting = cores / node->size();
  return plural(node->size(), "rank") + " of " + plural(threads, "thread") +
         (node->size() == 1 ? " has " : " share ") + plural(cores, "core") +
         " on this node, which is slower than " +
         (fitting > 0 ? "OMP_NUM_THREADS=" + std::to_string(fitting) : plural(cores, "rank"));
}

}  // namespace trireme
