// SPDX-License-Identifier: Apache-2.0
// Checkpoints that are written while training goes on.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <future>
#include <optional>
#include <set>
#include <span>

#include "checkpoint/archive.hpp"

namespace trireme {

// Rank 0's. One thread commits, marks the best and rotates; the caller starts one job after the
// other. No member throws anything of a job but take().
class BackgroundWriter {
 public:
  struct Options {
    std::filesystem::path checkpoints;
    std::int64_t keep = 1;  // as rotate_checkpoints()
  };
  struct Job {
    std::int64_t step = 0;
    std::span<const std::byte> image;  // untouched until the job is done
    bool best = false;                 // then the best so far
  };
  struct Done {
    CommittedCheckpoint checkpoint;
    std::chrono::steady_clock::time_point at;  // when it was committed
  };

  explicit BackgroundWriter(Options options) : options_(std::move(options)) {}
  // Waits for a job that is at work; its failure, if any, is lost.
  ~BackgroundWriter() = default;
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  // The run goes on from this checkpoint, the newest that verifies: later ones are doubtful until
  // this writer has written them anew.
  void resume_from(std::int64_t step);

  // No job may be at work, and the last one's outcome was taken.
  void start(const Job& job);
  // Whether no job is at work, at once or within this time.
  bool wait_for(std::chrono::milliseconds time) const;
  // Changes whenever a job comes on: where it does not, the file system hangs.
  std::int64_t moves() const { return moves_; }
  // Whether the last job has failed; true until its outcome is taken.
  bool failed() const { return failed_; }
  // What has become of a job that is not at work any more: once, then nothing. Throws what it
  // failed with.
  std::optional<Done> take();

 private:
  Done write(const Job& job);

  const Options options_;
  std::set<std::int64_t> doubtful_;  // the thread's while a job is at work
  std::atomic<bool> failed_{false};
  std::atomic<std::int64_t> moves_{0};
  std::future<Done> outcome_;  // last: its destructor waits for the thread
};

}  // namespace trireme
