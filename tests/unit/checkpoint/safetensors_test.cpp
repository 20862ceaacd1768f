// SPDX-License-Identifier: Apache-2.0
// Files of the format safetensors: what is written is read back, and each kind of nonsense is
// refused with its file and field.
#include "checkpoint/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "support/temporary_directory.hpp"
#include "trireme/error.hpp"
#include "unit/checkpoint/failing_calls.hpp"
#include "unit/checkpoint/sample.hpp"

namespace trireme::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;
namespace fs = std::filesystem;

// A file with this header, and so many bytes of data.
std::string file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  return file + header + std::string(data_bytes, 'x');
}

SafetensorsHeader parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)), file.size(), "w.safetensors");
}

// What the parser says against it; "" where it accepts.
std::string refusal(const std::string& file) {
  try {
    parse(file);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "";
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a.weight":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" +
         offsets + "}}";
}

TEST(Safetensors, AHeaderIsReadWithItsMetadata) {
  const SafetensorsHeader header =
      parse(file_of(R"({"b":{"shape":[],"dtype":"I64","data_offsets":[0,8]},)"
                    R"("__metadata__":{"format":"pt"},)"
                    R"("a":{"dtype":"BF16","shape":[2,3],"data_offsets":[8,20]},)"
                    R"("none":{"dtype":"F32","shape":[0,9223372036854775807],)"
                    R"("data_offsets":[8,8]}}   )",
                    20));
  ASSERT_EQ(header.tensors.size(), 3u);
  const SafetensorsTensor& a = header.tensors[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.dtype, "BF16");
  EXPECT_THAT(a.shape, ElementsAre(2, 3));
  EXPECT_EQ(a.size_bytes(), 12u);
  EXPECT_EQ(a.begin, header.tensors[1].end);
  EXPECT_THAT(header.metadata, ElementsAre(Pair("format", "pt")));
}

TEST(Safetensors, AnEmptyFileOfTensorsIsAccepted) { EXPECT_EQ(refusal(file_of("{}", 0)), ""); }

// In quadratic time this would take minutes.
TEST(Safetensors, VeryManyTensorsAreRead) {
  std::string header = "{";
  for (int i = 0; i < 100'000; ++i) {
    header += (i == 0 ? "\"" : ",\"") + std::to_string(i) +
              R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  }
  EXPECT_EQ(refusal(file_of(header + "}", 0)), "");
}

TEST(Safetensors, WhatIsNoSafetensorsFileIsRefused) {
  EXPECT_THAT(refusal(""), HasSubstr("w.safetensors: has 0 bytes"));
  EXPECT_THAT(refusal("1234567"), HasSubstr("has 7 bytes"));
  EXPECT_THAT(refusal("\x89HDF\r\n\x1a\n and more"), HasSubstr("is no safetensors file"));
  EXPECT_THAT(refusal(file_of("{}", 0).substr(0, 9)), HasSubstr("is cut off: it has 9 bytes"));
  EXPECT_THAT(refusal(file_of("[]", 0)), HasSubstr("does not start with '{'"));
  EXPECT_THAT(refusal(file_of(" {}", 0)), HasSubstr("does not start with '{'"));
  EXPECT_THAT(refusal(file_of("{} x", 0)), HasSubstr("no JSON: the error is at byte 4 of 4"));
  EXPECT_THAT(refusal(file_of(R"({"a":)", 0)), HasSubstr("no JSON"));
  EXPECT_THAT(refusal(file_of("{\"\xff\":1}", 0)), HasSubstr("no JSON"));
  EXPECT_THAT(refusal(file_of("{\"a\":" + std::string(100'000, '['), 0)),
              HasSubstr("nested too deeply"));
}

TEST(Safetensors, ALengthThatOverflowsIsRefused) {
  std::string file = file_of("{}", 0);
  std::memset(file.data(), 0xff, 8);
  EXPECT_THAT(refusal(file), HasSubstr("its header has 18446744073709551615 bytes"));
}

TEST(Safetensors, EachWrongFieldIsNamed) {
  const std::string f32 = R"("F32")";
  const struct {
    std::string header;
    std::string words;
  } cases[] = {
      {R"({"a.weight":1})", "tensor \"a.weight\" is not an object"},
      {R"({"a.weight":{"shape":[2],"data_offsets":[0,8]}})", "has no dtype"},
      {R"({"a.weight":{"dtype":"F32","data_offsets":[0,8]}})", "has no shape"},
      {R"({"a.weight":{"dtype":"F32","shape":[2]}})", "has no data_offsets"},
      {R"({"a.weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", "a field \"x\""},
      {one("1", "[2]", "[0,8]"), "dtype is not a text"},
      {one(R"("F4")", "[2]", "[0,8]"), "has dtype \"F4\", which is not known here"},
      {one(R"("\n")", "[2]", "[0,8]"), "has dtype \"\\n\""},
      {one(f32, "2", "[0,8]"), "shape is not a list of whole numbers"},
      {one(f32, "[-2]", "[0,8]"), "shape is not a list of whole numbers"},
      {one(f32, "[2.0]", "[0,8]"), "shape is not a list of whole numbers"},
      {one(f32, "[9223372036854775808]", "[0,8]"), "shape is not a list of whole numbers"},
      {one(f32, "[99999999999999999999]", "[0,8]"), "shape is not a list of whole numbers"},
      {one(f32, "[[2]]", "[0,8]"), "nested too deeply"},
      {one(f32, "[2]", "[0]"), "data_offsets are not two numbers"},
      {one(f32, "[2]", "[8,0]"), "data_offsets 8 to 0 are not within"},
      {one(f32, "[2]", "[0,9]"), "data_offsets 0 to 9 are not within the file's 8 bytes"},
      {one(f32, "[3]", "[0,8]"), "F32 [3] takes 12 bytes, its data_offsets have 8"},
      {one(f32, "[4611686018427387904,2]", "[0,8]"), "takes more than 2^64 bytes"},
      {one(f32, "[4611686018427387904,4]", "[0,8]"), "takes more than 2^64 bytes"},
      {R"({"__metadata__":[]})", "__metadata__ is not an object"},
      {R"({"__metadata__":{"step":1}})", "__metadata__: \"step\" is not a text"},
      {R"({"a":{},"a":{}})", "has \"a\" twice"},
      {R"({"a":{"dtype":"F32","dtype":"I64"}})", "has \"dtype\" twice"},
  };
  for (const auto& [header, words] : cases) {
    EXPECT_THAT(refusal(file_of(header, 8)), AllOf(StartsWith("w.safetensors: "), HasSubstr(words)))
        << header;
  }
}

TEST(Safetensors, GapsAndOverlapsAreRefused) {
  const auto two = [](const std::string& a, const std::string& b) {
    return file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
                       R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}",
                   8);
  };
  const std::size_t data = two("[0,4]", "[4,8]").size() - 8;
  EXPECT_EQ(refusal(two("[4,8]", "[0,4]")), "");
  EXPECT_THAT(refusal(two("[0,4]", "[3,7]")), HasSubstr("\"b\" overlaps another"));
  EXPECT_THAT(refusal(two("[0,4]", "[0,4]")), HasSubstr("\"b\" overlaps another"));
  EXPECT_THAT(refusal(file_of(one(R"("U8")", "[4]", "[4,8]"), 8)),
              HasSubstr("belong to no tensor"));
  EXPECT_THAT(refusal(two("[0,4]", "[4,8]") + "x"),
              HasSubstr("bytes " + std::to_string(data + 8) + " to " + std::to_string(data + 9) +
                        " belong to no tensor"));
  EXPECT_THAT(refusal(file_of("{}", 1)), HasSubstr("belong to no tensor"));
}

TEST(Safetensors, NamesFromTheFileAreShownAsOnePrintableLine) {
  const std::string name(100'000, 'n');
  const std::string text = refusal(file_of(R"({"\u001b[2J\nx":1,")" + name + R"(":1})", 0));
  EXPECT_THAT(text, HasSubstr(R"(tensor "\u001b[2J\nx")"));
  EXPECT_LT(refusal(file_of("{\"" + name + "\":1}", 0)).size(), 200u);
}

// Every file that differs from a good one in one byte is accepted or refused, never more.
TEST(Safetensors, AnyChangedByteOfTheHeaderIsHandled) {
  const std::string good = file_of(one(R"("F32")", "[2]", "[0,8]"), 8);
  std::size_t refused = 0;
  for (std::size_t at = 0; at + 8 < good.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      refused += refusal(bad).empty() ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 8 * good.size() / 2);
}

const std::vector<ArrayInfo> kArrays{{"z", DType::kF32, {2, 3}},
                                     {"count", DType::kI64, {}},
                                     {"mask", DType::kU8, {3}},
                                     {"a", DType::kF64, {2}},
                                     {"empty", DType::kF32, {0, 4}}};

void fill(const ArrayInfo& info, std::span<std::byte> data) {
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<std::byte>(static_cast<unsigned>(info.name[0]) + i);
}

void write_sample_file(const fs::path& path, Existing existing = Existing::kRefuse) {
  OutputFile file(path, existing);
  write_safetensors(file, kArrays, {{"format", "pt"}}, fill);
  file.commit();
}

TEST(Safetensors, WhatIsWrittenIsReadBackAndAligned) {
  const TemporaryDirectory root;
  const fs::path path = root.path() / "w.safetensors";
  write_sample_file(path);
  const SafetensorsReader reader(path);
  ASSERT_EQ(reader.header().tensors.size(), kArrays.size());
  for (const ArrayInfo& info : kArrays) {
    const auto found =
        std::ranges::find(reader.header().tensors, info.name, &SafetensorsTensor::name);
    ASSERT_NE(found, reader.header().tensors.end()) << info.name;
    EXPECT_EQ(found->dtype, safetensors_dtype(info.dtype));
    EXPECT_EQ(found->shape, info.shape);
    EXPECT_EQ(found->begin % size_of(info.dtype), 0u) << info.name;
    std::vector<std::byte> data(found->size_bytes()), expected(info.size_bytes());
    reader.read(*found, data);
    fill(info, expected);
    EXPECT_EQ(data, expected) << info.name;
  }
  EXPECT_THAT(reader.header().metadata, ElementsAre(Pair("format", "pt")));
}

TEST(Safetensors, AFileThatIsCutOffWhereverIsRefused) {
  const TemporaryDirectory root;
  const fs::path path = root.path() / "w.safetensors";
  write_sample_file(path);
  const std::string whole = file_text(path);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    set_file_text(path, whole.substr(0, size));
    EXPECT_THROW(SafetensorsReader{path}, CheckpointError) << size;
  }
}

TEST(OutputFile, RefusesWhatExistsUnlessToldToReplaceIt) {
  const TemporaryDirectory root;
  const fs::path path = root.path() / "w.safetensors";
  set_file_text(path, "mine");
  EXPECT_THROW(write_sample_file(path), CheckpointError);
  EXPECT_EQ(file_text(path), "mine");
  write_sample_file(path, Existing::kReplace);
  EXPECT_NO_THROW(SafetensorsReader{path});
  EXPECT_THAT(names_in(root.path()), ElementsAre("w.safetensors"));
}

TEST(OutputFile, NeverReplacesADirectoryAndNeverFollowsALink) {
  const TemporaryDirectory root;
  const fs::path directory = root.path() / "folder", target = root.path() / "target";
  fs::create_directory(directory);
  EXPECT_THROW(write_sample_file(directory, Existing::kReplace), CheckpointError);
  set_file_text(target, "mine");
  fs::create_symlink("target", root.path() / "link");
  EXPECT_THROW(write_sample_file(root.path() / "link"), CheckpointError);
  write_sample_file(root.path() / "link", Existing::kReplace);
  EXPECT_EQ(file_text(target), "mine");
  EXPECT_FALSE(fs::is_symlink(root.path() / "link"));
}

TEST(OutputFile, DoesNotReplaceWhatHasComeMeanwhile) {
  const TemporaryDirectory root;
  const fs::path path = root.path() / "w";
  {
    OutputFile file(path, Existing::kRefuse);
    set_file_text(path, "mine");
    EXPECT_THROW(file.commit(), CheckpointError);
  }
  EXPECT_EQ(file_text(path), "mine");
  EXPECT_THAT(names_in(root.path()), ElementsAre("w"));
}

// With each call that can fail failing: an error with path and errno, and the old file or the new.
TEST(OutputFile, AnyFailureLeavesTheOldFileOrTheNewOne) {
  for (int nth = 1;; ++nth) {
    const TemporaryDirectory root;
    const fs::path path = root.path() / "w.safetensors";
    set_file_text(path, "old");
    std::optional<std::string> message;
    {
      const FailingCalls failing(nth, ENOSPC, true);
      try {
        write_sample_file(path, Existing::kReplace);
      } catch (const CheckpointError& error) {
        message = error.what();
      }
      EXPECT_EQ(message.has_value(), failing.reached()) << "call " << nth;
    }
    if (!message) {
      EXPECT_GT(nth, 6) << "hardly any call was made to fail";
      break;
    }
    EXPECT_THAT(*message, AllOf(HasSubstr("(errno 28)"), HasSubstr(root.path().string())));
    EXPECT_THAT(names_in(root.path()), ElementsAre("w.safetensors")) << "call " << nth;
    if (file_text(path) != "old") {
      EXPECT_NO_THROW(SafetensorsReader{path});
    }
  }
}

}  // namespace
}  // namespace trireme::test
