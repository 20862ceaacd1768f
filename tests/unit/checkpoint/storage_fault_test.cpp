// SPDX-License-Identifier: Apache-2.0
// The disk fails while a checkpoint is written: an error, no leftovers, and the checkpoint before
// is intact.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <utility>

#include "checkpoint/archive.hpp"
#include "checkpoint/run_directory.hpp"
#include "support/temporary_directory.hpp"
#include "trireme/error.hpp"
#include "unit/checkpoint/failing_calls.hpp"
#include "unit/checkpoint/sample.hpp"

namespace trireme::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

void expect_no_temporaries(const fs::path& directory) {
  for (const std::string& name : names_in(directory)) {
    EXPECT_THAT(name, Not(HasSubstr(".tmp-")));
  }
}

// Commits step `to` with its nth call failing; returns the error's text, or nothing where there is
// no nth call.
std::optional<std::string> fail_at(const fs::path& checkpoints, std::int64_t to, int nth, int error,
                                   bool for_good) {
  const FailingCalls failing(nth, error, for_good);
  try {
    write_sample(checkpoints, to);
  } catch (const CheckpointError& caught) {
    EXPECT_TRUE(failing.reached());
    return caught.what();
  }
  EXPECT_FALSE(failing.reached()) << "call " << nth << " failed unnoticed";
  return std::nullopt;
}

class EveryCall : public ::testing::TestWithParam<std::tuple<int, bool>> {};

// Step 2 is new; step 1 is replaced: the newest good one must be old or new, and whole.
TEST_P(EveryCall, ThatFailsIsAnErrorAndLeavesAWholeCheckpoint) {
  const auto [error, for_good] = GetParam();
  for (const std::int64_t to : {1, 2}) {
    int nth = 1;
    while (true) {
      const TemporaryDirectory root;
      write_sample(root.path(), 1);
      const std::optional<std::string> message = fail_at(root.path(), to, nth, error, for_good);
      if (!message) break;
      EXPECT_THAT(*message, AllOf(HasSubstr("(errno " + std::to_string(error) + ")"),
                                  HasSubstr(root.path().string())));
      const auto newest = find_newest_good(
          root.path(), [](const std::string& warning) { ADD_FAILURE() << warning; });
      ASSERT_TRUE(newest) << "call " << nth;
      expect_sample(*newest, newest->filename() == "step-00000002" ? 2 : 1);
      // A deletion that failed may leave what was to be deleted; the next run removes it.
      remove_leftovers(root.path(), [](const std::string& warning) {
        EXPECT_THAT(warning, HasSubstr("delete-"));
      });
      write_sample(root.path(), to);
      expect_sample(root.path() / "latest", to);
      ++nth;
    }
    EXPECT_GT(nth, 10) << "hardly any call was made to fail";
  }
}

INSTANTIATE_TEST_SUITE_P(Errors, EveryCall,
                         ::testing::Combine(::testing::Values(ENOSPC, EIO), ::testing::Bool()));

TEST(StorageFault, AFailedWriteTellsTheSizes) {
  const TemporaryDirectory root;
  const std::vector<std::byte> image(3 << 20);
  std::string message;
  const FailingCalls failing(4, ENOSPC, false);  // after mkdir twice and the first write
  try {
    commit_checkpoint(root.path(), 1, image);
  } catch (const CheckpointError& error) {
    message = error.what();
  }
  EXPECT_THAT(message, AllOf(HasSubstr("No space left on device"), HasSubstr("bytes free there"),
                             HasSubstr("0 of 1048576 bytes"), HasSubstr("1048576 came before")));
}

// Runs `body` in a child process and returns its wait status; the child exits by exit(), with all
// exit handlers.
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) std::exit(body());
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

// Tries a 4 MB checkpoint in `checkpoints`; 0 if it failed with CheckpointError that holds
// `expected`.
int try_large(const fs::path& checkpoints, const std::string& expected) {
  constexpr std::int64_t kSize = 4'000'000;
  try {
    write_arrays(checkpoints, 2,
                 {{{"parameters/big", DType::kU8, {kSize}}, std::vector<std::byte>(kSize)}}, "{}");
  } catch (const CheckpointError& error) {
    return std::string(error.what()).find(expected) != std::string::npos ? 0 : 1;
  }
  return 2;
}

TEST(StorageFault, AFullDiskIsAnErrorAndTheProcessExitsCleanly) {
  const TemporaryDirectory root;
  if (mount("tmpfs", root.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "cannot mount a small tmpfs: " << std::strerror(errno);
  }
  write_sample(root.path() / "checkpoints", 1);
  const int status =
      in_child([&] { return try_large(root.path() / "checkpoints", "No space left on device"); });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "wait status " << status;
  expect_sample(root.path() / "checkpoints/latest", 1);
  expect_no_temporaries(root.path() / "checkpoints");
  EXPECT_EQ(umount(root.path().c_str()), 0);
}

TEST(StorageFault, AFileSizeLimitIsAnErrorAndTheProcessExitsCleanly) {
  const TemporaryDirectory root;
  write_sample(root.path(), 1);
  const int status = in_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 1'000'000, .rlim_max = 1'000'000};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 3;
    return try_large(root.path(), "File too large");
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "wait status " << status;
  expect_sample(root.path() / "latest", 1);
  expect_no_temporaries(root.path());
}

}  // namespace
}  // namespace trireme::test
