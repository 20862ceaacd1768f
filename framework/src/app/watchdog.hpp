// SPDX-License-Identifier: Apache-2.0
// Sees to it that nobody has to guess why nothing moves.
#pragma once

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/activity.hpp"
#include "trireme/communicator.hpp"

namespace trireme {

// Note [Stalls]
// All ranks wait for one that has stopped, and know no more than that. Therefore each rank shows
// what it does in memory of its node (ActivityRecord), and a thread of its own looks at that, at
// its own rank and at those beside it:
//  * a rank that has not come on for a tenth of the time-out and waits for nobody tells where it
//    is, with its stack; and once more shortly before the time-out;
//  * of the ranks of rank 0's node that wait for so long, the first tells for whom;
//  * of a rank whose watchdog is not awake, because the process was stopped or hangs in the kernel,
//    the first other rank of its node tells.
// Nothing travels between nodes for it: a stalled rank, or one beside it, speaks where it lives.
// What takes long by its nature, the start and a checkpoint, is no stall for the one that does it.
// On GPUs the host waits for NCCL where it next reads a number, which is not marked as waiting:
// there ranks that only wait tell of themselves, too.
// The end is not the watchdog's: each wait has the time-out itself.
//
// Warnings go to stderr, whole lines by one write. Time in which this process itself was stopped
// counts for nobody.
class Watchdog {
 public:
  struct Options {
    std::chrono::milliseconds timeout{};  // run.timeout
    std::string host;
  };

  // Collective. To be made and destroyed on the thread that trains; that thread's activity is
  // activity().
  Watchdog(Communicator& world, const Options& options);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // What is known on this node about ranks that keep others waiting, a line each; for the error of
  // a wait that has come to nothing. Any thread.
  std::string describe_culprits() const;

  // What this rank's watchdog has warned of since the last call. Any thread.
  std::vector<std::string> take_warnings();

  // Whether this rank is the first of its node to speak of an error. consequence: of another rank's
  // error, most likely; only the first to speak says such a one. Others are said unless the same
  // words have been. Any thread.
  bool may_say(const std::string& error, bool consequence);

 private:
  void watch();
  void look(std::int64_t now);
  void warn(const std::string& text);
  void look_at_own(std::int64_t now);
  void look_at_waiting(std::int64_t now);
  void look_at_neighbours(std::int64_t now);
  bool is_news(const std::string& about, std::int64_t episode);
  ActivityRecord& record(int local_rank) const;
  std::string name(int local_rank) const;   // "rank 2 (host, pid 77)"
  std::string place(int local_rank) const;  // "step 12, backward"
  bool has_ended(int local_rank) const;
  bool is_awake(int local_rank, std::int64_t now) const;

  const Options options_;
  const Placement placement_;
  const pthread_t trainer_ = pthread_self();
  const std::int64_t warn_ns_, last_ns_, interval_ns_;
  Buffer memory_;  // of the node: a SpokenError, then an ActivityRecord a local rank
  std::unique_ptr<Activity> activity_;
  std::unique_ptr<ActivityScope> scope_;
  std::int64_t looked_ns_ = 0;
  std::map<std::string, std::int64_t> warned_;  // [about]: the episode
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stop_ = false;                  // under mutex_
  std::vector<std::string> warnings_;  // under mutex_
  std::thread thread_;                 // last: it uses the others
};

}  // namespace trireme
