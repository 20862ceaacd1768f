// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/archive.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <thread>

#include "base/files.hpp"
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
  const CommittedCheckpoint committed = write_arrays(root.path(), 1, {}, "{}");
  EXPECT_EQ(committed.size_bytes,
            static_cast<std::int64_t>(fs::file_size(committed.directory / "model.h5") +
                                      fs::file_size(committed.directory / "manifest.json")));
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
  write_arrays(root.path(), 7, {}, R"({"first": true})");
  write_sample(root.path(), 7);
  expect_sample(root.path() / "step-00000007", 7);
  EXPECT_THAT(names_in(root.path()), ElementsAre("latest", "step-00000007"));
}

TEST(Archive, ALeftoverOfTheSameProcessIdIsReplaced) {
  const TemporaryDirectory root;
  const fs::path leftover = temporary_path(root.path(), "step-00000007");  // as after a restart
  make_directory(leftover);
  set_file_text(leftover / "model.h5", "half");
  write_sample(root.path(), 7);
  expect_sample(root.path() / "step-00000007", 7);
  EXPECT_THAT(names_in(root.path()), ElementsAre("latest", "step-00000007"));
}

TEST(Archive, RefusesNamesThatHdf5WouldChange) {
  for (const std::string& name :
       {std::string("weight"), std::string("/a/b"), std::string("a//b"), std::string("a/./b"),
        std::string("a/../b"), std::string("a/"), std::string("a/b\0c", 5)}) {
    EXPECT_THROW(ArchiveLayout({{name, DType::kF32, {}}}, 1), CheckpointError) << name;
  }
}

TEST(Archive, RefusesANameTwiceAndSaysWhich) {
  const ArrayInfo info{"parameters/a", DType::kF32, {}};
  try {
    const ArchiveLayout layout({info, info}, 1);
    FAIL() << "stored twice";
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr("parameters/a"));
    EXPECT_THAT(error.what(), HasSubstr("exists"));
  }
}

TEST(Archive, AStateThatDoesNotFitIsNotCut) {
  const ArchiveLayout layout({}, 4);
  std::vector<std::byte> image(layout.size_bytes());
  layout.begin(image);
  layout.set_state(image, 1, "1234");
  EXPECT_THROW(layout.set_state(image, 1, "12345"), InternalError);
}

// Where the bytes of an array belong depends on nothing but names, shapes and types.
TEST(Archive, AnImageThatIsFilledAgainIsThatOfTheLaterStep) {
  std::vector<ArrayInfo> infos;
  for (const SampleArray& array : sample_arrays(1)) infos.push_back(array.info);
  const ArchiveLayout layout(infos, sample_state(10).size() + 100);
  std::vector<std::byte> image(layout.size_bytes());
  layout.begin(image);
  for (const std::int64_t step : {10, 9}) {  // the later state is shorter
    const std::vector<SampleArray> arrays = sample_arrays(step);
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      std::ranges::copy(arrays[i].data,
                        image.begin() + static_cast<std::ptrdiff_t>(layout.offset_of(i)));
    }
    layout.set_state(image, step, sample_state(step));
  }
  const TemporaryDirectory root;
  expect_sample(commit_checkpoint(root.path(), 9, image).directory, 9);
}

// Of two tebibytes.
TEST(Archive, ALayoutTakesNoMemoryForTheArrays) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  const ArchiveLayout layout({{"parameters/a", DType::kU8, {kLarge}},
                              {"parameters/b", DType::kU8, {3}},
                              {"parameters/c", DType::kF32, {kLarge / 4}}},
                             100);
  EXPECT_GE(layout.size_bytes(), std::size_t{2 * kLarge});
  EXPECT_LT(layout.size_bytes(), std::size_t{2 * kLarge} + (std::size_t{1} << 20));
  EXPECT_EQ(layout.offset_of(0) % 64, 0U);
  EXPECT_EQ(layout.offset_of(2) % 64, 0U);
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
  std::vector<SampleArray> arrays;
  for (std::int64_t i = 0; i < kArrays; ++i) {
    arrays.push_back({{name(i), DType::kI64, {}}, std::vector<std::byte>(sizeof i)});
    std::memcpy(arrays.back().data.data(), &i, sizeof i);
  }
  const CheckpointReader reader(write_arrays(root.path(), 1, arrays, state).directory);
  EXPECT_EQ(reader.state(), state);
  ASSERT_EQ(reader.arrays().size(), static_cast<std::size_t>(kArrays));
  for (std::int64_t i = 0; i < kArrays; ++i) {
    std::int64_t value = -1;
    reader.read(*reader.find(name(i)), std::as_writable_bytes(std::span(&value, 1)));
    ASSERT_EQ(value, i);
  }
}

TEST(Archive, ACheckpointOfFormatOneIsRead) {
  const CheckpointReader reader(TRIREME_SOURCE_DIR "/tests/unit/checkpoint/format-1");
  EXPECT_EQ(reader.step(), 2);
  EXPECT_THAT(reader.state(), ::testing::StartsWith("{\n  \"step\": 2,"));
  EXPECT_EQ(reader.state().back(), '}');
  ASSERT_EQ(reader.arrays().size(), 12U);
  const ArrayInfo* bias = reader.find("parameters/layers.1.bias");
  ASSERT_NE(bias, nullptr);
  EXPECT_EQ(*bias, (ArrayInfo{"parameters/layers.1.bias", DType::kF32, {3}}));
  std::array<float, 3> values{};
  reader.read(*bias, std::as_writable_bytes(std::span(values)));
  EXPECT_THAT(values,
              ElementsAre(-0.4290308654308319F, -0.4304393231868744F, -0.45251184701919556F));
}

TEST(Archive, AMissingParentIsNamed) {
  const TemporaryDirectory root;
  try {
    write_sample(root.path() / "missing/checkpoints", 1);
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
