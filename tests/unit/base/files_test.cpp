// SPDX-License-Identifier: Apache-2.0
#include "base/files.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <vector>

#include "support/temporary_directory.hpp"
#include "trireme/error.hpp"

namespace trireme::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const CheckpointError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

// The id of a process that has ended.
pid_t dead_process() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  return child;
}

TEST(Files, ErrnoIsSaidInWordsAndAsANumber) {
  EXPECT_EQ(describe_errno(ENOSPC), "No space left on device (errno 28)");
}

TEST(Files, ReadsBackWhatReplaceFileWrote) {
  const TemporaryDirectory root;
  const fs::path path = root.path() / "file";
  const std::string long_text(200'000, 'x');
  replace_file(path, long_text);
  EXPECT_EQ(read_file(path, long_text.size()), long_text);
  replace_file(path, "");
  EXPECT_EQ(read_file(path, 0), "");
}

TEST(Files, AFileBeyondTheLimitIsRefused) {
  const TemporaryDirectory root;
  replace_file(root.path() / "file", "12345");
  EXPECT_THAT(error_of([&] { read_file(root.path() / "file", 4); }),
              HasSubstr("more than 4 bytes"));
}

TEST(Files, OnlyRegularFilesAreOpened) {
  const TemporaryDirectory root;
  const fs::path pipe = root.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { read_file(pipe, 10); }), HasSubstr("not a regular file"));
  EXPECT_THAT(error_of([&] { open_file(pipe, O_WRONLY); }), HasSubstr(pipe.string()));
  EXPECT_THAT(error_of([&] { read_file(root.path(), 10); }), HasSubstr("not a regular file"));
  EXPECT_THAT(error_of([&] { read_file(root.path() / "missing", 10); }),
              AllOf(HasSubstr("missing"), HasSubstr("errno 2")));
}

TEST(Files, ALinkIsReplacedNotFollowed) {
  const TemporaryDirectory root;
  replace_file(root.path() / "victim", "precious");
  fs::create_symlink("victim", root.path() / "file");
  EXPECT_THAT(error_of([&] { open_file(root.path() / "file", O_WRONLY); }),
              HasSubstr("symbolic link"));
  replace_file(root.path() / "file", "new");
  EXPECT_FALSE(fs::is_symlink(root.path() / "file"));
  EXPECT_EQ(read_file(root.path() / "victim", 100), "precious");
}

TEST(Files, ALinkPointsToItsNewTarget) {
  const TemporaryDirectory root;
  replace_link(root.path() / "link", "a");
  replace_link(root.path() / "link", "b");
  EXPECT_EQ(fs::read_symlink(root.path() / "link"), "b");
}

TEST(Files, ADirectoryInTheWayIsAnErrorThatLeavesNothingBehind) {
  const TemporaryDirectory root;
  fs::create_directories(root.path() / "taken/inside");
  EXPECT_THAT(error_of([&] { replace_file(root.path() / "taken", "x"); }), HasSubstr("taken"));
  EXPECT_THAT(error_of([&] { replace_link(root.path() / "taken", "x"); }), HasSubstr("taken"));
  EXPECT_EQ(std::distance(fs::directory_iterator(root.path()), {}), 1);
}

TEST(Files, MakingADirectoryTwiceIsFineAndOneOverAFileIsNot) {
  const TemporaryDirectory root;
  make_directory(root.path() / "d");
  make_directory(root.path() / "d");
  EXPECT_TRUE(fs::is_directory(root.path() / "d"));
  replace_file(root.path() / "file", "");
  EXPECT_THAT(error_of([&] { make_directory(root.path() / "file"); }), HasSubstr("errno 17"));
}

TEST(Files, RemovingALinkKeepsItsTarget) {
  const TemporaryDirectory root;
  make_directory(root.path() / "target");
  replace_file(root.path() / "target/file", "x");
  replace_link(root.path() / "link", "target");
  remove_tree(root.path() / "link");
  remove_tree(root.path() / "never was");
  EXPECT_EQ(read_file(root.path() / "target/file", 10), "x");
}

TEST(Leftovers, OfDeadOwnersAreRemovedAndNamedOthersAreKeptAndNamed) {
  const TemporaryDirectory root;
  const auto name = [](const std::string& host, const std::string& pid) {
    return ".tmp-x-" + host + "-" + pid;
  };
  const std::string alive = name(host_name(), std::to_string(getppid()));
  const std::string elsewhere = name("another-host", std::to_string(dead_process()));
  const std::string unnamed = ".tmp-x";
  for (const std::string& kept : {alive, elsewhere, unnamed}) replace_file(root.path() / kept, "");
  const std::string dead = name(host_name(), std::to_string(dead_process()));
  fs::create_directories(root.path() / dead / "inside");
  const fs::path own = temporary_path(root.path(), "y");
  replace_file(own, "");
  replace_file(root.path() / "file", "");
  std::vector<std::string> removed;
  std::vector<std::string> kept;
  remove_leftovers(root.path(), [&](const std::string& warning) {
    (warning.starts_with("removed ") ? removed : kept).push_back(warning);
  });
  EXPECT_THAT(removed, ::testing::UnorderedElementsAre(HasSubstr(dead), HasSubstr(own.string())));
  EXPECT_THAT(kept, ::testing::UnorderedElementsAre(HasSubstr(alive), HasSubstr(elsewhere),
                                                    HasSubstr(unnamed)));
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(root.path())) {
    names.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre(alive, elsewhere, unnamed, "file"));
}

TEST(Leftovers, OfAnOwnerThatNobodyHasWaitedForAreRemoved) {
  const TemporaryDirectory root;
  const pid_t owner = fork();
  if (owner == 0) _exit(0);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(owner), &info, WEXITED | WNOWAIT), 0);
  const fs::path leftover =
      root.path() / (".tmp-step-00000001-" + host_name() + "-" + std::to_string(owner));
  fs::create_directory(leftover);
  remove_leftovers(root.path(),
                   [](const std::string& warning) { EXPECT_THAT(warning, HasSubstr("removed ")); });
  EXPECT_FALSE(fs::exists(leftover));
  EXPECT_EQ(waitpid(owner, nullptr, 0), owner);
}

TEST(Leftovers, AMissingDirectoryHasNone) {
  const TemporaryDirectory root;
  remove_leftovers(root.path() / "missing",
                   [](const std::string& warning) { ADD_FAILURE() << warning; });
}

}  // namespace
}  // namespace trireme::test
