// SPDX-License-Identifier: Apache-2.0
// As ranks of mpirun: trains networks whose BatchNorm waits for all ranks in forward and backward,
// while buckets of gradients are on their way, and compares with what rank 0 trains alone.
// --messages lets data travel as messages within a node, too.
#include <cstdio>
#include <cstring>
#include <exception>

#include "comm/mpi.hpp"
#include "support/training.hpp"

namespace trireme::test {
namespace {

// As many micro-batches as one rank has, the last one of a step too small for four ranks; buckets
// so small that most of them are reduced while backward runs.
Config config_for(const std::string& model, int ranks) {
  return config_of("model: {" + model + R"(}
data: {name: synthetic, samples: 40, classes: 3, shape: [3, 16, 16], flip: random}
optimizer: {name: sgd, lr: 0.02, momentum: 0.9}
train: {max_steps: 4, global_batch: 14, precision: fp64, micro_batch: )" +
                   std::to_string(12 / ranks) + R"(}
parallel: {bucket_mb: 0.02, edge_bucket_mb: 0.002, sync_batch_norm: true}
)");
}

bool trains_as_one_rank(Communicator& world, const std::string& model) {
  const TrainingRun together = train_together(world, config_for(model, world.size()));
  if (world.rank() != 0) return true;
  const TrainingRun alone = train(config_for(model, 1));
  const double difference = largest_difference(alone.losses, together.losses);
  std::printf("%s: %d ranks differ from one by %.1e\n", model.c_str(), world.size(), difference);
  return difference <= 1e-10;
}

int run(bool messages) {
  MpiEnvironment environment({.node_memory = !messages});
  try {
    const std::unique_ptr<Communicator> world = environment.world();
    world->set_timeout(std::chrono::seconds(60));
    at::set_num_threads(1);
    for (const char* model : {"name: convnet, width: 8", "name: resnet18, stem: cifar"}) {
      if (!trains_as_one_rank(*world, model)) environment.abort(1);
    }
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
  return trireme::test::run(argc > 1 && std::strcmp(argv[1], "--messages") == 0);
}
