// SPDX-License-Identifier: Apache-2.0
#include "app/shared_directory.hpp"

#include <chrono>
#include <string>
#include <thread>

#include "base/files.hpp"
#include "checkpoint/run_directory.hpp"
#include "comm/shared_error.hpp"

namespace trireme {
namespace {

// What a network file system may keep of an older look, at most a few seconds.
constexpr std::chrono::seconds kPatience{10};
constexpr std::chrono::milliseconds kPause{200};

bool sees(const std::filesystem::path& path, const std::string& holder) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (RunDirectory::holder(path) != holder) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

}  // namespace

void require_shared_directory(const std::filesystem::path& path, Communicator& world) {
  const std::string holder =
      world.exchange(world.rank() == 0 ? RunDirectory::holder(path) : std::string()).front();
  collectively(world, [&] {
    if (world.placement().local_rank != 0 || world.placement().node == 0) return;
    if (sees(path, holder)) return;
    throw CheckpointError("run directory " + path.string() + " (" +
                          std::filesystem::absolute(path).string() + ") on host " + host_name() +
                          " is not the one that rank 0 has made (" + holder +
                          "); put run.dir on a file system that all hosts share, or set "
                          "run.shared: false to have it on rank 0's host alone");
  });
}

}  // namespace trireme
