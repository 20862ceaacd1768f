// SPDX-License-Identifier: Apache-2.0
#include "app/rank_device.hpp"

#include <memory>

#include "comm/nccl.hpp"
#include "comm/shared_error.hpp"
#include "device/gpu.hpp"

namespace trireme {

RankDevice find_device(const std::string& wish, Communicator& world) {
  if (wish == "cpu") return {};
  TRIREME_ASSERT(wish == "cuda", "run.device is cpu or cuda");
  const std::unique_ptr<Communicator> node = world.split_by_node();
  Gpu gpu;
  collectively(world, [&] {
    gpu = use_gpu(choose_gpu(visible_gpus(), node->rank(), node->size()));
    require_one_nccl(nccl_library(), nccl_version_of_torch());
  });
  const std::vector<std::string> uuids = world.exchange(gpu.uuid);
  collectively(world, [&] { require_own_gpus(uuids); });
  return {.device = at::Device(at::kCUDA, static_cast<at::DeviceIndex>(gpu.index)),
          .name = gpu.name};
}

}  // namespace trireme
