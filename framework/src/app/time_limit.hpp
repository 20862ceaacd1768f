// SPDX-License-Identifier: Apache-2.0
// The time by which a run has to be over: run.time_limit, or the end of the Slurm job.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "config/config.hpp"
#include "trireme/communicator.hpp"

namespace trireme {

class TimeLimit {
 public:
  using Clock = std::chrono::steady_clock;
  // What is known when a run starts.
  struct Now {
    Clock::time_point start;                      // of the run
    std::chrono::system_clock::time_point today;  // the same moment
    const char* job_end = nullptr;                // SLURM_JOB_END_TIME, where it is set
  };

  TimeLimit() = default;  // none
  // The earlier of both ends, less the margin. ConfigError where no time to train is left, and for
  // a job_end that is no number of seconds.
  TimeLimit(const RunConfig& config, const Now& now);

  // Whether the run has to stop. Any thread.
  bool reached() const { return stop_ && Clock::now() >= *stop_; }
  // How long it may train, as a line for the user; "" where nothing limits it.
  const std::string& text() const { return text_; }

 private:
  std::optional<Clock::time_point> stop_;
  std::string text_;
};

// Collective. Of a run that starts now; none on ranks other than 0.
TimeLimit limit_of_rank_0(const RunConfig& config, Communicator& world);

}  // namespace trireme
