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
#include <vector>

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

// The steps that the dead child told of.
std::vector<std::int64_t> told_steps(int descriptor) {
  std::vector<std::int64_t> steps;
  std::int64_t step = 0;
  while (read(descriptor, &step, sizeof step) == sizeof step) steps.push_back(step);
  return steps;
}

TEST(Kill, AtAnyMomentLeavesTheLastCommittedCheckpointWhole) {
  const TemporaryDirectory root;
  write_sample(root.path(), 1);
  std::int64_t newest = 1;
  std::mt19937 random(20240229);
  std::uniform_real_distribution<double> share(0, 1);
  // The longest life of a child; follows the machine's speed, so that kills fall into the first few
  // commits.
  std::chrono::duration<double> longest{0.02};
  constexpr int kKills = 40;
  for (int round = 0; round < kKills; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) commit_for_ever(root.path(), newest + 1, ends[1]);
    close(ends[1]);
    // Not waiting for any state: the moment of the kill is what is varied.
    std::this_thread::sleep_for(share(random) * longest);
    ASSERT_EQ(kill(child, SIGKILL), 0);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    const std::vector<std::int64_t> steps = told_steps(ends[0]);
    close(ends[0]);
    longest *= steps.empty() ? 1.5 : steps.size() > 4 ? 0.7 : 1;
    const std::int64_t told = steps.empty() ? newest : steps.back();
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
