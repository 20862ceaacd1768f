// SPDX-License-Identifier: Apache-2.0
// The thread that advances operations while their callers compute. It knows nothing of MPI.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "comm/task.hpp"

namespace trireme {

// Owns the thread and the tasks in flight. Any thread may call it.
//
// Note [Waiting without starving]
// mpirun binds a rank with all its threads to one core, so whoever spins takes time from who
// computes. The thread polls at once while something moves; then it yields a few times; then it
// sleeps, 50 us at first and up to 200 us. Callers spin before they sleep only where the process
// has a second core. With no task in flight `idle_step` runs every 2 ms for a second and then every
// 20 ms: a send that MPI calls complete may still lie in its queue, and only further calls move it.
class Progress {
 public:
  explicit Progress(std::function<void()> idle_step);
  ~Progress();  // stop(); leaves the thread behind where it hangs
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // kLater: the thread looks at the task when it wakes by itself, 2 to 20 ms later. For a task that
  // its caller will advance.
  enum class Wake { kNow, kLater };
  // Throws CommError once any task has failed, and after stop().
  void post(std::shared_ptr<Task> task, Wake wake = Wake::kNow);
  void require_running() const;  // throws as post()
  // Fails what is in flight and ends the thread. False: it did not end within `limit`, because a
  // step hangs; the process has to end then.
  bool stop(std::chrono::milliseconds limit);

 private:
  class Loop;
  std::shared_ptr<Loop> loop_;  // shared with the thread, which may have to be left behind
  std::thread thread_;
};

}  // namespace trireme
