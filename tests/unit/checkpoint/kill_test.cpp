// SPDX-License-Identifier: Apache-2.0
// SIGKILL at random moments of writing, replacing and rotating.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "base/files.hpp"
#include "checkpoint/archive.hpp"
#include "support/temporary_directory.hpp"
#include "unit/checkpoint/sample.hpp"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;

// Commits first, first, first + 1, first + 1, ...: each step is replaced once. Tells each committed
// step.
[[noreturn]] void commit_for_ever(const fs::path& checkpoints, std::int64_t first, int tell) {
  for (std::int64_t i = 2 * first;; ++i) {
    const std::int64_t step = i / 2;
    write_sample(checkpoints, step);
    if (write(tell, &step, sizeof step) != sizeof step) _exit(1);
    mark_best(checkpoints, step);
    rotate_checkpoints(checkpoints, 1);
  }
}

// The last step that the dead child told of; `before` if it told of none.
std::int64_t last_told(int descriptor, std::int64_t before) {
  std::int64_t last = before;
  std::int64_t step = 0;
  while (read(descriptor, &step, sizeof step) == sizeof step) last = step;
  return last;
}

TEST(Kill, AtAnyMomentLeavesTheLastCommittedCheckpointWhole) {
  const TemporaryDirectory root;
  const auto begin = std::chrono::steady_clock::now();
  write_sample(root.path(), 1);
  const std::chrono::duration<double> one_commit = std::chrono::steady_clock::now() - begin;
  std::int64_t newest = 1;
  std::mt19937 random(20240229);
  std::uniform_real_distribution<double> num_commits(0, 6);
  constexpr int kKills = 40;
  for (int round = 0; round < kKills; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) commit_for_ever(root.path(), newest + 1, ends[1]);
    close(ends[1]);
    // Not waiting for any state: the moment of the kill is what is varied.
    std::this_thread::sleep_for(num_commits(random) * one_commit);
    ASSERT_EQ(kill(child, SIGKILL), 0);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    const std::int64_t told = last_told(ends[0], newest);
    close(ends[0]);
    const auto found =
        find_newest_good(root.path(), [](const std::string& warning) { ADD_FAILURE() << warning; });
    ASSERT_TRUE(found) << "round " << round;
    const std::int64_t step = CheckpointReader(*found).step();
    EXPECT_GE(step, told) << "round " << round;
    expect_sample(*found, step);
    newest = step;
  }
  EXPECT_GT(newest, 1) << "the children were killed before they did anything";
  remove_leftovers(root.path(), [](const std::string& warning) {
    EXPECT_THAT(warning, ::testing::StartsWith("removed "));
  });
  for (const std::string& name : names_in(root.path())) {
    EXPECT_FALSE(name.starts_with(".tmp-")) << name;
  }
}

}  // namespace
}  // namespace trireme::test
