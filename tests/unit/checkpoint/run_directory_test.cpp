// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/run_directory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <limits>

#include "support/temporary_directory.hpp"
#include "trireme/error.hpp"
#include "unit/checkpoint/failing_calls.hpp"
#include "unit/checkpoint/sample.hpp"

namespace trireme::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

void ignore(const std::string& /*warning*/) {}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const CheckpointError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(RunDirectory, MakesParents) {
  const TemporaryDirectory root;
  const RunDirectory run = RunDirectory::create(root.path() / "runs/new");
  EXPECT_TRUE(fs::is_directory(root.path() / "runs/new/checkpoints"));
  EXPECT_EQ(run.checkpoints(), root.path() / "runs/new/checkpoints");
}

TEST(RunDirectory, ReadsBackWhatItWrote) {
  const TemporaryDirectory root;
  const RunDirectory run = RunDirectory::create(root.path());
  const std::string text("a\0b\n", 4);
  run.write("config.yaml", "old, and longer");
  run.write("config.yaml", text);
  EXPECT_EQ(RunDirectory::read(run.path(), "config.yaml"), text);
  EXPECT_THAT(error_of([&] { RunDirectory::read(run.path(), "state.json"); }),
              HasSubstr("state.json"));
}

TEST(RunDirectory, AUsedOneIsRefusedForANewRun) {
  for (const char* name :
       {"config.yaml", "state.json", "metrics.jsonl", "metrics.csv", "log.txt"}) {
    const TemporaryDirectory root;
    set_file_text(root.path() / name, "x");
    EXPECT_THAT(
        error_of([&] { RunDirectory::create(root.path()); }),
        AllOf(HasSubstr(root.path().string()), HasSubstr("--resume auto"), HasSubstr("run.dir")))
        << name;
    EXPECT_EQ(file_text(root.path() / name), "x");
    fs::create_directories(root.path() / "checkpoints" / "step-00000003");
    EXPECT_THAT(error_of([&] { RunDirectory::create(root.path()); }),
                HasSubstr("trainer resume " + root.path().string()));
  }
  const TemporaryDirectory root;
  fs::create_directories(root.path() / "checkpoints/step-00000001");
  EXPECT_THAT(error_of([&] { RunDirectory::create(root.path()); }), HasSubstr("trainer resume"));
}

TEST(RunDirectory, OneWithOtherFilesOrAnAbandonedStartMayBeUsed) {
  const TemporaryDirectory root;
  set_file_text(root.path() / "slurm-17.out", "x");
  { const RunDirectory abandoned = RunDirectory::create(root.path()); }
  const RunDirectory run = RunDirectory::create(root.path());
  EXPECT_THAT(names_in(root.path()), ElementsAre(".lock", "checkpoints", "slurm-17.out"));
}

TEST(RunDirectory, AnAbandonedStartLeavesNothingThatItMade) {
  const TemporaryDirectory root;
  { const RunDirectory abandoned = RunDirectory::create(root.path() / "runs/new"); }
  EXPECT_THAT(names_in(root.path()), ElementsAre());
  fs::create_directory(root.path() / "runs");
  { const RunDirectory abandoned = RunDirectory::create(root.path() / "runs/new"); }
  EXPECT_THAT(names_in(root.path()), ElementsAre("runs"));
  EXPECT_THAT(names_in(root.path() / "runs"), ElementsAre());
}

TEST(RunDirectory, AnAbandonedStartLeavesWhatWasThereBefore) {
  const TemporaryDirectory root;
  fs::create_directory(root.path() / "checkpoints");
  set_file_text(root.path() / ".lock", "pid 1 on host gone");
  { const RunDirectory abandoned = RunDirectory::create(root.path()); }
  EXPECT_THAT(names_in(root.path()), ElementsAre(".lock", "checkpoints"));
}

TEST(RunDirectory, AFileOfAnothersInThePlaceOfTheLockIsNotWrittenOver) {
  const TemporaryDirectory root;
  set_file_text(root.path() / "precious", "pid of another kind");
  fs::create_directory(root.path() / "run");
  fs::create_hard_link(root.path() / "precious", root.path() / "run/.lock");
  EXPECT_THAT(error_of([&] { RunDirectory::create(root.path() / "run"); }),
              HasSubstr("is not a lock of Trireme's"));
  EXPECT_EQ(file_text(root.path() / "precious"), "pid of another kind");
  fs::remove(root.path() / "run/.lock");
  set_file_text(root.path() / "run/.lock", "important");
  EXPECT_THAT(error_of([&] { RunDirectory::create(root.path() / "run"); }),
              HasSubstr("is not a lock of Trireme's"));
  EXPECT_EQ(file_text(root.path() / "run/.lock"), "important");
}

TEST(RunDirectory, AStartThatBeganOrWroteStays) {
  const TemporaryDirectory root;
  { RunDirectory::create(root.path() / "a").keep(); }
  { RunDirectory::create(root.path() / "b").write("state.json", "x"); }
  EXPECT_THAT(names_in(root.path()), ElementsAre("a", "b"));
  EXPECT_THAT(names_in(root.path() / "a"), ElementsAre(".lock", "checkpoints"));
}

TEST(RunDirectory, ALinkInThePlaceOfCheckpointsIsNotFollowed) {
  const TemporaryDirectory root;
  fs::create_directory(root.path() / "elsewhere");
  fs::create_directory(root.path() / "run");
  fs::create_directory_symlink(root.path() / "elsewhere", root.path() / "run/checkpoints");
  EXPECT_THAT(error_of([&] { RunDirectory::create(root.path() / "run"); }),
              HasSubstr("is a symbolic link, expected a directory"));
  EXPECT_THAT(names_in(root.path() / "elsewhere"), ElementsAre());
}

TEST(RunDirectory, OfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make another user's directory";
  const TemporaryDirectory root;
  fs::permissions(root.path(), fs::perms::all);
  ASSERT_EQ(::chown(root.path().c_str(), 12345, 12345), 0);
  ASSERT_EQ(::seteuid(54321), 0);
  const std::string error = error_of([&] { RunDirectory::create(root.path()); });
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_THAT(error, AllOf(HasSubstr("belongs to user id 12345"), HasSubstr("you are 54321")));
}

TEST(RunDirectory, TellsWhoHoldsIt) {
  const TemporaryDirectory root;
  EXPECT_EQ(RunDirectory::holder(root.path()), "");
  const RunDirectory run = RunDirectory::create(root.path());
  EXPECT_THAT(RunDirectory::holder(root.path()), HasSubstr("pid " + std::to_string(getpid())));
}

TEST(RunDirectory, IsHeldByOneRunAtATime) {
  const TemporaryDirectory root;
  {
    const RunDirectory run = RunDirectory::create(root.path());
    run.write("config.yaml", "x");
    const auto holder = AllOf(HasSubstr("in use by pid " + std::to_string(getpid()) + " on host"),
                              HasSubstr(root.path().string()));
    EXPECT_THAT(error_of([&] { RunDirectory::create(root.path()); }), holder);
    EXPECT_THAT(error_of([&] { RunDirectory::open(root.path(), ignore); }), holder);
  }
  EXPECT_EQ(RunDirectory::read(root.path(), "config.yaml"), "x");
}

TEST(RunDirectory, OpeningOneWithoutARunIsRefused) {
  const TemporaryDirectory root;
  EXPECT_THAT(error_of([&] { RunDirectory::open(root.path(), ignore); }),
              HasSubstr("holds no run"));
  EXPECT_THAT(error_of([&] { RunDirectory::open(root.path() / "missing", ignore); }),
              HasSubstr("holds no run"));
  EXPECT_FALSE(fs::exists(root.path() / "missing"));
}

TEST(RunDirectory, OpeningRemovesAndNamesLeftovers) {
  const TemporaryDirectory root;
  { RunDirectory::create(root.path()).write("config.yaml", "x"); }
  const fs::path file = temporary_path(root.path(), "state.json");
  const fs::path directory = temporary_path(root.path() / "checkpoints", "step-00000003");
  set_file_text(file, "half");
  fs::create_directory(directory);
  std::vector<std::string> warnings;
  const RunDirectory run = RunDirectory::open(
      root.path(), [&](const std::string& warning) { warnings.push_back(warning); });
  EXPECT_THAT(warnings, ElementsAre(HasSubstr(file.string()), HasSubstr(directory.string())));
  EXPECT_FALSE(fs::exists(file) || fs::exists(directory));
}

TEST(RunDirectory, ACopyThatFollowedLinksIsRefusedWithTheWayOut) {
  for (const char* name : {"latest", "best"}) {
    const TemporaryDirectory root;
    { RunDirectory::create(root.path()).write("config.yaml", "x"); }
    fs::create_directory(root.path() / "checkpoints" / name);
    EXPECT_THAT(error_of([&] { RunDirectory::open(root.path(), ignore); }),
                AllOf(HasSubstr((root.path() / "checkpoints" / name).string()),
                      HasSubstr("links followed"), HasSubstr("remove")));
  }
}

TEST(RunDirectory, APathThatIsAFileIsNamed) {
  const TemporaryDirectory root;
  set_file_text(root.path() / "file", "x");
  for (const fs::path& path : {root.path() / "file", root.path() / "file/below"}) {
    EXPECT_THAT(error_of([&] { RunDirectory::create(path); }), HasSubstr(path.string()));
  }
}

TEST(RunDirectory, OneThatCannotBeWrittenIsFoundAtOnce) {
  const TemporaryDirectory root;
  const FailingCalls failing(1, EROFS, true);
  EXPECT_THAT(error_of([&] { RunDirectory::create(root.path()); }),
              AllOf(HasSubstr(root.path().string()), HasSubstr("Read-only file system")));
}

TEST(RunDirectory, AFailedWriteKeepsTheOldFile) {
  const TemporaryDirectory root;
  const RunDirectory run = RunDirectory::create(root.path());
  run.write("state.json", "old");
  for (int nth = 1; nth <= 4; ++nth) {  // write, fsync, close, rename
    const FailingCalls failing(nth, EIO, false);
    EXPECT_THAT(error_of([&] { run.write("state.json", "new"); }), HasSubstr("errno 5"));
    EXPECT_EQ(RunDirectory::read(run.path(), "state.json"), "old");
    EXPECT_THAT(names_in(root.path()), ElementsAre(".lock", "checkpoints", "state.json"));
  }
}

TEST(RunDirectory, LinksLaidInWaitAreNotFollowed) {
  const TemporaryDirectory root;
  const fs::path victim = root.path() / "victim";
  set_file_text(victim, "precious");
  const fs::path path = root.path() / "run";
  fs::create_directory(path);
  fs::create_symlink(victim, path / ".lock");
  EXPECT_THAT(error_of([&] { RunDirectory::create(path); }), HasSubstr("symbolic link"));
  fs::remove(path / ".lock");
  const RunDirectory run = RunDirectory::create(path);
  fs::create_symlink(victim, path / "config.yaml");
  EXPECT_THAT(error_of([&] { RunDirectory::read(run.path(), "config.yaml"); }),
              HasSubstr("symbolic link"));
  run.write("config.yaml", "x");
  EXPECT_EQ(RunDirectory::read(run.path(), "config.yaml"), "x");
  EXPECT_EQ(file_text(victim), "precious");
}

}  // namespace
}  // namespace trireme::test
