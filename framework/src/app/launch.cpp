// SPDX-License-Identifier: Apache-2.0
#include "app/launch.hpp"

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <iostream>
#include <sstream>
#include <utility>

#include "base/activity.hpp"
#include "base/files.hpp"
#include "base/stack.hpp"
#include "comm/local.hpp"
#include "comm/phase.hpp"
#include "config/config.hpp"

namespace trireme {
namespace {

// Of the first of these variables that is set; 0 where none is.
int first_number(std::initializer_list<const char*> variables) {
  for (const char* variable : variables) {
    if (const char* value = std::getenv(variable); value != nullptr) return std::atoi(value);
  }
  return 0;
}

}  // namespace

Launch::Launch(NetworkSetup network, const MpiOptions& options) : network_(std::move(network)) {
  if (MpiEnvironment::launched()) {
    mpi_ = std::make_unique<MpiEnvironment>(options);
    world_ = mpi_->world();
    world_->set_timeout(std::chrono::milliseconds(
        static_cast<std::int64_t>(RunConfig{}.timeout * 1e3)));  // until the configuration is read
    host_ = mpi_->host();
  } else {
    world_ = make_local_communicator();
    host_ = host_name();
  }
  // Again: MPI takes these signals for itself where nobody has.
  report_crashes("rank " + std::to_string(world_->rank()) + " (" + host_ + ")");
}

std::string Launch::transport() const {
  return mpi_ != nullptr ? mpi_->transport() : std::string();
}

std::string Launch::thread_level() const {
  return mpi_ != nullptr ? mpi_->thread_level() : std::string();
}

std::string Launch::without_node_memory() const {
  return mpi_ != nullptr && world_->size() > 1 ? mpi_->without_node_memory() : std::string();
}

void Launch::watch(std::chrono::milliseconds timeout) {
  TRIREME_ASSERT(watchdog_ == nullptr, "this launch is watched already");
  watchdog_ =
      std::make_unique<Watchdog>(*world_, Watchdog::Options{.timeout = timeout, .host = host_});
}

void Launch::finish() {
  if (mpi_ != nullptr) {
    enter_phase(Phase::kEnd);
    // MPI_Finalize waits for all ranks, too, and without an end.
    in_phase("the end of the run", [&] { return world_->exchange({}); });
  }
  watchdog_.reset();
  if (mpi_ != nullptr) mpi_->finalize();
}

int Launch::fail(int exit_code) {
  if (mpi_ != nullptr && world_->size() > 1) mpi_->abort(exit_code);
  return exit_code;
}

void Launch::note(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) said_.push_back(line);
}

void say(Launch& launch, const std::string& text) {
  if (launch.world().rank() != 0) return;
  std::cout << text << std::flush;
  launch.note(text);
}

int launcher_rank() {
  return first_number({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"});
}

int launcher_local_rank() {
  return first_number({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"});
}

bool launched_on_several_hosts() {
  const int by_mpirun = first_number({"OMPI_COMM_WORLD_SIZE"});
  return by_mpirun > 0 ? by_mpirun > first_number({"OMPI_COMM_WORLD_LOCAL_SIZE"})
                       : first_number({"SLURM_STEP_NUM_NODES"}) > 1;
}

}  // namespace trireme
