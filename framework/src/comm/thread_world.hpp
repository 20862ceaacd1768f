// SPDX-License-Identifier: Apache-2.0
// What the ranks of run_as_threads share. Internal to the thread communicator.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "comm/call.hpp"
#include "comm/layout.hpp"
#include "trireme/communicator.hpp"

namespace trireme {

// One collective operation of one group: the calls of its ranks, gathered until all have arrived.
struct Meeting {
  explicit Meeting(int size) : calls(static_cast<std::size_t>(size)) {}

  std::vector<std::unique_ptr<Call>> calls;  // [rank]; null: has not arrived
  int num_arrived = 0;
  bool done = false;
  std::chrono::steady_clock::time_point completed_at;
};

struct ThreadGroup {
  int id = 0;
  std::vector<int> members;                                // [rank] -> rank in the world
  Layout layout;                                           // of the group's ranks
  std::map<std::uint64_t, std::shared_ptr<Meeting>> open;  // [sequence]
};

// The last rank that arrives does the work for all, in its own thread. One lock guards everything:
// these ranks are for tests of correctness, not of speed.
class ThreadWorld {
 public:
  ThreadWorld(int size, int ranks_per_node);

  std::shared_ptr<ThreadGroup> all() const { return all_; }
  // The group of these members (ranks of `parent`) that came of parent's call number `sequence`:
  // the same object for each of its ranks.
  std::shared_ptr<ThreadGroup> subgroup(const ThreadGroup& parent, std::uint64_t sequence,
                                        const std::vector<int>& members);
  int node_of(int world_rank) const { return world_rank / ranks_per_node_; }

  // Throws CommError where the world has failed.
  std::shared_ptr<Meeting> arrive(ThreadGroup& group, int rank, Call call);
  bool test(const Meeting& meeting);
  // Throws CommError where the meeting does not come about: time-out, mismatch, a rank that threw.
  // Then no rank touches the data any more.
  void wait(const Meeting& meeting, int rank, std::chrono::milliseconds timeout);
  std::chrono::steady_clock::time_point completed_at(const Meeting& meeting);

  // A rank's body threw: whoever waits, or arrives later, gets a CommError. The first one counts.
  void fail(std::exception_ptr error, const std::string& reason);
  std::exception_ptr first_error();

 private:
  Layout layout_of(const std::vector<int>& members) const;
  void fail_locked(std::exception_ptr error, const std::string& reason);
  [[noreturn]] void give_up(const Call& call, int rank, std::size_t size) const;

  const int ranks_per_node_;
  std::shared_ptr<ThreadGroup> all_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::exception_ptr error_;
  std::string reason_;
  std::map<std::tuple<int, std::uint64_t, int>, std::shared_ptr<ThreadGroup>>
      subgroups_;  // [parent's id, sequence, first member]
};

}  // namespace trireme
