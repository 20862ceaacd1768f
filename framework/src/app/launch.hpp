// SPDX-License-Identifier: Apache-2.0
// The ranks of this job: under mpirun all of them, by hand one.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "app/network.hpp"
#include "app/watchdog.hpp"
#include "comm/mpi.hpp"
#include "trireme/communicator.hpp"

namespace trireme {

class Launch {
 public:
  // Collective under a launcher. EnvironmentError. network: what this rank has applied; whether it
  // is good is asked by require_network.
  explicit Launch(NetworkSetup network, const MpiOptions& options = {});

  Communicator& world() { return *world_; }
  const std::string& host() const { return host_; }
  bool under_launcher() const { return mpi_ != nullptr; }
  const NetworkSetup& network() const { return network_; }
  // As of MpiEnvironment; "" by hand.
  std::string transport() const;
  std::string thread_level() const;
  // Why the ranks of a node do not share memory; empty: they do, or there is one rank.
  std::string without_node_memory() const;

  // What rank 0 has said so far, in lines; for the log of a run, which opens later.
  const std::vector<std::string>& said() const { return said_; }
  void note(const std::string& text);  // as said

  // Collective: from now on a watchdog looks at the activity of this thread, which trains.
  void watch(std::chrono::milliseconds timeout);
  Watchdog* watchdog() const { return watchdog_.get(); }  // null: nobody watches

  // Collective: the regular end, after all ranks have agreed on it. CommError where one does not
  // come within run.timeout.
  void finish();
  // The one way out for an error that concerns this rank alone: ends all ranks with this code.
  // Returns the code where there are no others.
  int fail(int exit_code);

 private:
  NetworkSetup network_;
  std::unique_ptr<MpiEnvironment> mpi_;  // null: one rank by hand
  std::string host_;
  std::unique_ptr<Communicator> world_;
  std::vector<std::string> said_;
  std::unique_ptr<Watchdog> watchdog_;
};

// Prints on rank 0, and notes it.
void say(Launch& launch, const std::string& text);

// The rank that a launcher gave this process, before MPI is up; 0 by hand. For messages only.
int launcher_rank();
// The same among the ranks of this host.
int launcher_local_rank();
// Whether mpirun or srun started ranks on other hosts, too.
bool launched_on_several_hosts();

}  // namespace trireme
