// SPDX-License-Identifier: Apache-2.0
#include "device/gpu.hpp"

#include <map>

#include "trireme/error.hpp"

namespace trireme {

int choose_gpu(int visible, int local_rank, int local_ranks) {
  // A launcher that gives each rank its own (CUDA_VISIBLE_DEVICES) leaves one in sight.
  if (visible == 1) return 0;
  if (visible < local_ranks) {
    throw EnvironmentError(std::to_string(local_ranks) + " ranks on this node share " +
                           std::to_string(visible) +
                           " GPUs; each rank wants its own: start at most " +
                           std::to_string(visible) + " ranks a node, or set run.device=cpu");
  }
  return local_rank;
}

void require_own_gpus(const std::vector<std::string>& uuids) {
  std::map<std::string, std::size_t> rank_with;
  for (std::size_t rank = 0; rank < uuids.size(); ++rank) {
    const auto [other, fresh] = rank_with.emplace(uuids[rank], rank);
    if (fresh) continue;
    throw EnvironmentError("ranks " + std::to_string(other->second) + " and " +
                           std::to_string(rank) + " have the same GPU (" + uuids[rank] +
                           "); each rank wants its own: start fewer ranks on that node, let them "
                           "see more GPUs (CUDA_VISIBLE_DEVICES), or set run.device=cpu");
  }
}

}  // namespace trireme
