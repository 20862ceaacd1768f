// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/archive.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <thread>

#include "support/temporary_directory.hpp"
#include "trireme/error.hpp"
#include "unit/checkpoint/sample.hpp"

namespace trireme::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

TEST(Archive, ReadsBackWhatWasWritten) {
  const TemporaryDirectory root;
  const fs::path committed = write_sample(root.path() / "checkpoints", 120);
  EXPECT_EQ(committed, root.path() / "checkpoints/step-00000120");
  expect_sample(committed, 120);
}

TEST(Archive, FindsArraysByName) {
  const TemporaryDirectory root;
  const CheckpointReader reader(write_sample(root.path(), 1));
  ASSERT_NE(reader.find("parameters/mask"), nullptr);
  EXPECT_EQ(reader.find("parameters/mask")->dtype, DType::kU8);
  EXPECT_EQ(reader.find("parameters/mas"), nullptr);
  EXPECT_EQ(reader.find("parameters/z"), nullptr);
}

TEST(Archive, SizeIsThatOfAllFiles) {
  const TemporaryDirectory root;
  CheckpointWriter writer(root.path(), 1);
  const fs::path committed = writer.commit("{}");
  EXPECT_EQ(writer.size_bytes(),
            static_cast<std::int64_t>(fs::file_size(committed / "model.h5") +
                                      fs::file_size(committed / "manifest.json")));
}

TEST(Archive, LatestNamesTheLastCommitted) {
  const TemporaryDirectory root;
  write_sample(root.path(), 1);
  write_sample(root.path(), 2);
  EXPECT_EQ(fs::read_symlink(root.path() / "latest"), "step-00000002");
  expect_sample(root.path() / "latest", 2);
}

TEST(Archive, HasNothingBesidesTheCommitted) {
  const TemporaryDirectory root;
  write_sample(root.path(), 1);
  EXPECT_THAT(names_in(root.path()), ElementsAre("latest", "step-00000001"));
  EXPECT_THAT(names_in(root.path() / "step-00000001"), ElementsAre("manifest.json", "model.h5"));
}

TEST(Archive, CommittingAStepAgainReplacesIt) {
  const TemporaryDirectory root;
  CheckpointWriter first(root.path(), 7);
  first.commit(R"({"first": true})");
  write_sample(root.path(), 7);
  expect_sample(root.path() / "step-00000007", 7);
  EXPECT_THAT(names_in(root.path()), ElementsAre("latest", "step-00000007"));
}

TEST(Archive, AWriterThatDoesNotCommitLeavesNothing) {
  const TemporaryDirectory root;
  {
    CheckpointWriter writer(root.path(), 7);
    EXPECT_EQ(names_in(root.path()).size(), 1U);
  }
  EXPECT_TRUE(names_in(root.path()).empty());
}

TEST(Archive, ALeftoverOfTheSameProcessIdIsReplaced) {
  const TemporaryDirectory root;
  {
    CheckpointWriter writer(root.path(), 7);
    const std::string leftover = names_in(root.path()).at(0);
    set_file_text(root.path() / leftover / "model.h5", "half");
    write_sample(root.path(), 7);  // a second writer of the same name, as after a restart
  }
  expect_sample(root.path() / "step-00000007", 7);
}

TEST(Archive, RefusesNamesThatHdf5WouldChange) {
  const TemporaryDirectory root;
  CheckpointWriter writer(root.path(), 1);
  const std::array<std::byte, 4> data{};
  for (const std::string& name :
       {std::string("weight"), std::string("/a/b"), std::string("a//b"), std::string("a/./b"),
        std::string("a/../b"), std::string("a/"), std::string("a/b\0c", 5)}) {
    EXPECT_THROW(writer.add({name, DType::kF32, {}}, data), CheckpointError) << name;
  }
}

TEST(Archive, RefusesANameTwiceAndSaysWhich) {
  const TemporaryDirectory root;
  CheckpointWriter writer(root.path(), 1);
  const std::array<std::byte, 4> data{};
  writer.add({"parameters/a", DType::kF32, {}}, data);
  try {
    writer.add({"parameters/a", DType::kF32, {}}, data);
    FAIL() << "stored twice";
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr("parameters/a"));
    EXPECT_THAT(error.what(), HasSubstr("exists"));
  }
}

TEST(Archive, DataMustFitTheShape) {
  const TemporaryDirectory root;
  CheckpointWriter writer(root.path(), 1);
  const std::array<std::byte, 4> data{};
  EXPECT_THROW(writer.add({"parameters/a", DType::kF32, {2}}, data), InternalError);
}

TEST(Archive, HoldsFiveThousandLongNamesAndALongState) {
  const TemporaryDirectory root;
  const auto name = [](std::int64_t i) {
    std::array<char, 80> text{};
    std::snprintf(text.data(), text.size(), "parameters/%060lld", static_cast<long long>(i));
    return std::string(text.data());
  };
  constexpr std::int64_t kArrays = 5000;
  const std::string state = '"' + std::string(200'000, 'x') + '"';
  CheckpointWriter writer(root.path(), 1);
  for (std::int64_t i = 0; i < kArrays; ++i) {
    writer.add({name(i), DType::kI64, {}}, std::as_bytes(std::span(&i, 1)));
  }
  const CheckpointReader reader(writer.commit(state));
  EXPECT_EQ(reader.state(), state);
  ASSERT_EQ(reader.arrays().size(), static_cast<std::size_t>(kArrays));
  for (std::int64_t i = 0; i < kArrays; ++i) {
    std::int64_t value = -1;
    reader.read(*reader.find(name(i)), std::as_writable_bytes(std::span(&value, 1)));
    ASSERT_EQ(value, i);
  }
}

TEST(Archive, AMissingParentIsNamed) {
  const TemporaryDirectory root;
  try {
    CheckpointWriter writer(root.path() / "missing/checkpoints", 1);
    FAIL() << "made the parent";
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr("missing/checkpoints"));
    EXPECT_THAT(error.what(), HasSubstr("errno 2"));
  }
}

TEST(Archive, OneThreadWritesWhileAnotherReads) {
  const TemporaryDirectory root;
  const fs::path committed = write_sample(root.path() / "read", 3);
  constexpr int kRounds = 20;
  std::thread writing([&] {
    for (int step = 0; step < kRounds; ++step) write_sample(root.path() / "written", step);
  });
  for (int round = 0; round < kRounds; ++round) expect_sample(committed, 3);
  writing.join();
  expect_sample(root.path() / "written/latest", kRounds - 1);
}

}  // namespace
}  // namespace trireme::test
