// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/directory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/archive.hpp"
#include "support/temporary_directory.hpp"
#include "trireme/error.hpp"
#include "unit/checkpoint/sample.hpp"

namespace trireme::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

void ignore(const std::string& /*warning*/) {}

TEST(StepName, ReadsBackOnlyItsOwnSpelling) {
  EXPECT_EQ(step_name(120), "step-00000120");
  EXPECT_EQ(step_name(1234567890), "step-1234567890");
  for (const std::int64_t step : {0, 120, 99'999'999, 100'000'000}) {
    EXPECT_EQ(step_of(step_name(step)), step);
    EXPECT_EQ(step_of(".replaced-" + step_name(step)), step);
  }
  for (const char* name :
       {"step-120", "step-000000120", "step--0000120", "step-0000012x", "step-", "Step-00000120",
        "step-99999999999999999999", ".tmp-step-00000120", "latest", ""}) {
    EXPECT_EQ(step_of(name), std::nullopt) << name;
  }
}

TEST(ListCheckpoints, IsOldestFirstWithoutForeignNames) {
  const TemporaryDirectory root;
  write_sample(root.path(), 100'000'000);
  write_sample(root.path(), 20);
  write_sample(root.path(), 3);
  fs::create_directory(root.path() / ".tmp-step-00000004-somehost-1");
  fs::create_directory(root.path() / "step-5");
  fs::create_directory_symlink("step-00000003", root.path() / "step-00000006");
  set_file_text(root.path() / "step-00000007", "a file");
  EXPECT_THAT(list_checkpoints(root.path()),
              ElementsAre(root.path() / "step-00000003", root.path() / "step-00000020",
                          root.path() / "step-100000000"));
}

TEST(ListCheckpoints, IsEmptyForAMissingDirectory) {
  const TemporaryDirectory root;
  EXPECT_TRUE(list_checkpoints(root.path() / "missing").empty());
  EXPECT_EQ(find_newest_good(root.path() / "missing", ignore), std::nullopt);
}

TEST(ListCheckpoints, AReplacedOneCountsOnlyWhileItsStepHasNoOther) {
  const TemporaryDirectory root;
  const fs::path committed = write_sample(root.path(), 5);
  const fs::path aside = root.path() / ".replaced-step-00000005";
  fs::rename(committed, aside);  // as after a kill between the two renames
  EXPECT_THAT(list_checkpoints(root.path()), ElementsAre(aside));
  expect_sample(*find_newest_good(root.path(), ignore), 5);
  fs::copy(aside, committed, fs::copy_options::recursive);  // as after a kill before the deletion
  EXPECT_THAT(list_checkpoints(root.path()), ElementsAre(committed));
  write_sample(root.path(), 5);
  EXPECT_THAT(names_in(root.path()), ElementsAre("latest", "step-00000005"));
}

TEST(FindNewestGood, FallsBackToTheNextOlderOneAndSaysWhy) {
  const TemporaryDirectory root;
  write_sample(root.path(), 1);
  write_sample(root.path(), 2);
  write_sample(root.path(), 3);
  set_file_text(root.path() / "step-00000003/model.h5", "damaged");
  fs::remove(root.path() / "step-00000002/manifest.json");
  std::vector<std::string> warnings;
  const auto found = find_newest_good(
      root.path(), [&](const std::string& warning) { warnings.push_back(warning); });
  EXPECT_EQ(found, root.path() / "step-00000001");
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("step-00000003/model.h5 is damaged"),
                                    HasSubstr("step-00000002/manifest.json")));
}

TEST(FindNewestGood, StopsWhereNoneVerifies) {
  const TemporaryDirectory root;
  write_sample(root.path(), 1);
  set_file_text(root.path() / "step-00000001/model.h5", "damaged");
  try {
    find_newest_good(root.path(), ignore);
    FAIL() << "found one";
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr("step-00000001/model.h5 is damaged"));
  }
}

TEST(MarkBest, LinksToAnExistingStep) {
  const TemporaryDirectory root;
  write_sample(root.path(), 1);
  write_sample(root.path(), 2);
  mark_best(root.path(), 2);
  mark_best(root.path(), 1);
  expect_sample(root.path() / "best", 1);
  EXPECT_THROW(mark_best(root.path(), 3), CheckpointError);
  expect_sample(root.path() / "best", 1);
}

TEST(Rotate, KeepsTheNewestAndTheBest) {
  const TemporaryDirectory root;
  for (const int step : {1, 2, 3, 4, 5}) write_sample(root.path(), step);
  mark_best(root.path(), 2);
  rotate_checkpoints(root.path(), 2);
  EXPECT_THAT(names_in(root.path()),
              ElementsAre("best", "latest", "step-00000002", "step-00000004", "step-00000005"));
}

TEST(Rotate, KeepsAllWhereThereAreFew) {
  const TemporaryDirectory root;
  write_sample(root.path(), 1);
  rotate_checkpoints(root.path(), 1);
  rotate_checkpoints(root.path(), 3);
  expect_sample(root.path() / "step-00000001", 1);
}

TEST(Rotate, DoubtfulOnesDoNotCountAndGoWithOlderOnes) {
  const TemporaryDirectory root;
  for (const int step : {1, 2, 3, 4, 5, 6}) write_sample(root.path(), step);
  rotate_checkpoints(root.path(), 2, {1, 3, 5});
  EXPECT_THAT(names_in(root.path()),
              ElementsAre("latest", "step-00000004", "step-00000005", "step-00000006"));
}

TEST(Room, CountsWhatLiesThereAlready) {
  const TemporaryDirectory root;
  const fs::path checkpoints = root.path() / "checkpoints";
  require_room(checkpoints, 3, 1000);  // the folder is not there yet
  write_sample(checkpoints, 1);
  require_room(checkpoints, 3, 1000);
  constexpr std::int64_t kMuch = std::int64_t{1} << 60;
  const auto there = fs::file_size(checkpoints / "latest/model.h5") +
                     fs::file_size(checkpoints / "latest/manifest.json");
  try {
    require_room(checkpoints, 3, kMuch);
    FAIL() << "found room for exabytes";
  } catch (const CheckpointError& error) {
    EXPECT_THAT(
        error.what(),
        ::testing::AllOf(HasSubstr("bytes free"), HasSubstr(checkpoints.string()),
                         HasSubstr(std::to_string(3 * kMuch - std::int64_t(there)) + " are needed"),
                         HasSubstr(std::to_string(there) + " bytes do already")));
  }
}

// After a resume that passed over a damaged step 9, its higher number must not push out what is
// made now.
TEST(Rotate, DoesNotCountStepsBeyondLatest) {
  const TemporaryDirectory root;
  for (const int step : {9, 3, 4}) write_sample(root.path(), step);
  rotate_checkpoints(root.path(), 1);
  EXPECT_THAT(names_in(root.path()), ElementsAre("latest", "step-00000004", "step-00000009"));
}

}  // namespace
}  // namespace trireme::test
