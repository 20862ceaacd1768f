// SPDX-License-Identifier: Apache-2.0
#include "app/estimate.hpp"

#include <cstdio>
#include <sstream>

#include "base/text.hpp"

namespace trireme {

namespace {

// Whether a rank keeps, as float32, what compression has taken off its part of the gradients.
bool keeps_residuals(const ParallelConfig& parallel) {
  return parallel.error_feedback || parallel.compression == "powersgd";
}

}  // namespace

RankCounts counts_of(const Communicator& world) {
  const Placement placement = world.placement();
  return {.world = world.size(), .node = placement.local_size, .num_nodes = placement.num_nodes};
}

Estimate estimate(const Session& session, const RankCounts& ranks) {
  const Replica& replica = session.replica();
  Estimate result{.length = run_length(session.config(), session.data().train->size())};
  std::int64_t trained = 0, fixed = 0, state = 0;  // bytes
  for (std::size_t i = 0; i < replica.trained.size(); ++i) {
    const auto bytes = static_cast<std::int64_t>(replica.trained[i].tensor.nbytes());
    const auto& settings = replica.groups[static_cast<std::size_t>(replica.group_of[i])].settings;
    trained += bytes;
    state += bytes * static_cast<std::int64_t>(make_optimizer(settings)->slots().size());
  }
  for (const auto* tensors : {&replica.frozen, &replica.buffers}) {
    for (const NamedTensor& t : *tensors) fixed += static_cast<std::int64_t>(t.tensor.nbytes());
  }
  for (const NamedTensor& t : replica.frozen) result.frozen_parameters += t.tensor.numel();
  result.trained_parameters = replica.num_trained();
  const ParallelConfig& parallel = session.config().parallel;
  // By a node, of its sum; and by all nodes, of the whole (which PowerSGD does not round).
  const std::int64_t owed = keeps_residuals(parallel) && ranks.num_nodes > 1 ? trained : 0;
  const std::int64_t owed_of_all = parallel.compression == "powersgd" ? 0 : owed;
  result.residual_bytes = (owed + owed_of_all / ranks.num_nodes) / ranks.node;
  result.memory_bytes = 2 * trained + fixed + result.residual_bytes +
                        state / (parallel.shard_over == "world" ? ranks.world : ranks.node);
  result.checkpoint_bytes = trained + fixed + state + owed * ranks.num_nodes + owed_of_all;
  return result;
}

std::string to_text(const Estimate& estimate, const Session& session, const RankCounts& ranks) {
  std::ostringstream text;
  text << "parameters        " << estimate.trained_parameters << " trained, "
       << estimate.frozen_parameters << " frozen\n"
       << "memory a rank     " << human_bytes(estimate.memory_bytes)
       << " for parameters, gradients and its shard of the optimizer"
       << (estimate.residual_bytes > 0
               ? ", of it " + human_bytes(estimate.residual_bytes) + " that compression owes"
               : "")
       << ", plus activations and input\n"
       << "training samples  " << session.data().train->size() << "\n"
       << "steps             " << estimate.length.total_steps << " ("
       << estimate.length.steps_per_epoch << " an epoch), global batch "
       << session.config().train.global_batch << " on " << plural(ranks.world, "rank") << "\n"
       << "checkpoint        " << human_bytes(estimate.checkpoint_bytes) << " each, up to "
       << session.config().checkpoint.keep + 1 << " kept in " << session.config().run.dir
       << "; another in the first node's memory, which its ranks share\n";
  return text.str();
}

std::string estimate_text(const Session& session, const Communicator& world) {
  const RankCounts ranks = counts_of(world);
  return to_text(estimate(session, ranks), session, ranks);
}

std::string human_bytes(std::int64_t bytes) {
  const char* const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(units)) {
    value /= 1000;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 || value >= 100 ? "%.0f %s" : "%.2f %s", value,
                units[unit]);
  return text;
}

}  // namespace trireme
