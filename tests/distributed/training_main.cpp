// SPDX-License-Identifier: Apache-2.0
// As ranks of mpirun: trains networks whose BatchNorm waits for all ranks in forward and backward,
// while buckets of gradients are on their way, and compares with what rank 0 trains alone.
// --messages lets data travel as messages within a node, too.
// --nodes-of K makes nodes of K consecutive ranks, and trains with what acts between nodes, too.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>

#include "comm/mpi.hpp"
#include "node_training.hpp"
#include "support/training.hpp"

namespace trireme::test {
namespace {

struct Network {
  const char* model;
  const char* bucket_mb;  // tens of buckets: most are reduced while backward runs
};

// As many micro-batches as one rank has, the last one of a step too small for four ranks.
Config config_for(const Network& network, int ranks) {
  return config_of(std::string("model: {") + network.model + R"(}
data: {name: synthetic, samples: 14, classes: 3, shape: [3, 16, 16], flip: random}
optimizer: {name: sgd, lr: 0.02, momentum: 0.9}
train: {max_steps: 3, global_batch: 14, precision: fp64, micro_batch: )" +
                   std::to_string(12 / ranks) + R"(}
parallel: {sync_batch_norm: true, edge_bucket_mb: 0.002, bucket_mb: )" +
                   network.bucket_mb + "}\n");
}

bool trains_as_one_rank(Communicator& world, const Network& network) {
  const TrainingRun together = train_together(world, config_for(network, world.size()));
  if (world.rank() != 0) return true;
  const TrainingRun alone = train(config_for(network, 1));
  const double difference = largest_difference(alone.losses, together.losses);
  std::printf("%s: %d ranks differ from one by %.1e\n", network.model, world.size(), difference);
  return difference <= 1e-10;
}

int run(const MpiOptions& options) {
  MpiEnvironment environment(options);
  try {
    const std::unique_ptr<Communicator> world = environment.world();
    world->set_timeout(std::chrono::seconds(60));
    at::set_num_threads(1);
    for (const Network& network : {Network{"name: convnet, width: 8", "0.005"},
                                   Network{"name: resnet18, stem: cifar", "2"}}) {
      if (!trains_as_one_rank(*world, network)) environment.abort(1);
    }
    if (options.ranks_per_node > 0 && !trains_as_threads_do(*world)) environment.abort(1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    environment.abort(1);
  }
  environment.finalize();
  return 0;
}

}  // namespace
}  // namespace trireme::test

int main(int argc, char** argv) {
  trireme::MpiOptions options;
  if (argc > 1 && std::strcmp(argv[1], "--messages") == 0) options.node_memory = false;
  if (argc > 2 && std::strcmp(argv[1], "--nodes-of") == 0)
    options.ranks_per_node = std::atoi(argv[2]);
  return trireme::test::run(options);
}
