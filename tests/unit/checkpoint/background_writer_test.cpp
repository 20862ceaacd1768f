// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/background_writer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "support/temporary_directory.hpp"
#include "trireme/error.hpp"
#include "unit/checkpoint/failing_calls.hpp"
#include "unit/checkpoint/sample.hpp"

namespace trireme::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr std::chrono::seconds kPatience{60};

std::vector<std::byte> sample_image(std::int64_t step) {
  return image_of(step, sample_arrays(step), sample_state(step));
}

BackgroundWriter::Done write(BackgroundWriter& writer, std::int64_t step, bool best = false) {
  const std::vector<std::byte> image = sample_image(step);
  writer.start({.step = step, .image = image, .best = best});
  EXPECT_TRUE(writer.wait_for(kPatience));
  return *writer.take();
}

TEST(BackgroundWriter, CommitsMarksTheBestAndRotates) {
  const TemporaryDirectory root;
  BackgroundWriter writer({.checkpoints = root.path(), .keep = 1});
  EXPECT_TRUE(writer.wait_for({}));
  EXPECT_FALSE(writer.take());
  write(writer, 1, /*best=*/true);
  write(writer, 2);
  const BackgroundWriter::Done done = write(writer, 3);
  EXPECT_EQ(done.checkpoint.directory, root.path() / "step-00000003");
  expect_sample(done.checkpoint.directory, 3);
  EXPECT_THAT(names_in(root.path()),
              ElementsAre("best", "latest", "step-00000001", "step-00000003"));
  expect_sample(root.path() / "best", 1);
}

TEST(BackgroundWriter, AFailureIsKnownAtOnceAndThrownOnce) {
  const TemporaryDirectory root;
  BackgroundWriter writer({.checkpoints = root.path(), .keep = 1});
  write(writer, 1);
  const std::vector<std::byte> image = sample_image(2);
  {
    const FailingCalls failing(3, ENOSPC, /*for_good=*/false);
    writer.start({.step = 2, .image = image});
    ASSERT_TRUE(writer.wait_for(kPatience));
  }
  EXPECT_TRUE(writer.failed());
  try {
    writer.take();
    FAIL() << "the failure is lost";
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr("(errno 28)"));
  }
  EXPECT_FALSE(writer.failed());
  EXPECT_FALSE(writer.take());
  EXPECT_THAT(names_in(root.path()), ElementsAre("latest", "step-00000001"));
  write(writer, 2);
  expect_sample(root.path() / "latest", 2);
}

TEST(BackgroundWriter, ItsDestructorWaitsForTheCheckpoint) {
  const TemporaryDirectory root;
  const std::vector<std::byte> image = sample_image(1);
  {
    BackgroundWriter writer({.checkpoints = root.path(), .keep = 1});
    writer.start({.step = 1, .image = image});
  }
  expect_sample(root.path() / "latest", 1);
}

// A resume from step 1 has passed over 2 and 5: they must not take the place of 1 among the two
// that are kept, though a new step comes after them.
TEST(BackgroundWriter, CheckpointsThatAResumePassedOverDoNotCount) {
  const TemporaryDirectory root;
  for (const int step : {1, 2, 5}) write_sample(root.path(), step);
  BackgroundWriter writer({.checkpoints = root.path(), .keep = 2});
  writer.resume_from(1);
  write(writer, 3);
  EXPECT_THAT(names_in(root.path()), ElementsAre("latest", "step-00000001", "step-00000002",
                                                 "step-00000003", "step-00000005"));
  write(writer, 5);  // anew: now it counts
  EXPECT_THAT(names_in(root.path()), ElementsAre("latest", "step-00000003", "step-00000005"));
}

}  // namespace
}  // namespace trireme::test
