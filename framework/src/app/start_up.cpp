// SPDX-License-Identifier: Apache-2.0
#include "app/start_up.hpp"

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "app/failure.hpp"
#include "app/network.hpp"
#include "app/sinks.hpp"
#include "base/text.hpp"
#include "comm/shared_error.hpp"
#include "device/cpu.hpp"

namespace trireme {
namespace {

// Where the GPUs' communication has failed nobody can go on; called on a thread of its own.
void end_all(const std::string& reason, Launch& launch) {
  tell_failure({.message = reason, .code = ExitCode::kCommunication}, launch);
  std::_Exit(launch.fail(static_cast<int>(ExitCode::kCommunication)));
}

}  // namespace

Started start_up(Launch& launch, const Config& config, const std::string& wish) {
  Communicator& world = launch.world();
  const std::chrono::milliseconds timeout(static_cast<std::int64_t>(config.run.timeout * 1e3));
  world.set_timeout(timeout);
  launch.watch(timeout);
  Environment environment;
  int threads = 1;
  collectively(world, [&] { threads = use_threads(); });
  RankDevice device = find_device(wish, world);
  device.on_failure = [&launch](const std::string& reason) { end_all(reason, launch); };
  collectively(world, [&] {
    environment = survey(world, {.host = launch.host(), .device = device.name}, threads,
                         {.messages = launch.transport(),
                          .thread_level = launch.thread_level(),
                          .network = launch.network().applied});
  });
  say(launch, "trireme " + plural(world.size(), "rank") + " on " +
                  plural(environment.nodes, "node") + ", " + plural(threads, "thread") + " a rank" +
                  (device.device.is_cuda() ? ", " + device.name : "") + "; " + config.data.name +
                  " -> " + config.model.name + ", run directory " + config.run.dir + "\n");
  say(launch, describe_network(launch.network(), launch.transport(), environment.nodes));
  if (const std::string why = launch.without_node_memory(); !why.empty())
    say(launch, "data between the ranks of a node travels as messages: " + why + "\n");
  const std::string crowded = oversubscription(world, threads);
  if (!crowded.empty() && world.rank() == 0) warn(crowded);
  return {.environment = std::move(environment), .device = std::move(device)};
}

}  // namespace trireme
