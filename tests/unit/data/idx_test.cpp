// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <zlib.h>

#include <mutex>

#include "comm/threads.hpp"
#include "support.hpp"

namespace trireme {
namespace {

using test::DataDir;
using test::make;
using test::message_of;
using testing::AllOf;
using testing::HasSubstr;

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(value >> shift & 0xFFU);
  }
  return bytes;
}

std::string header(std::uint32_t magic, const std::vector<std::uint32_t>& dims) {
  std::string bytes = big_endian(magic);
  for (const std::uint32_t dim : dims) {
    bytes += big_endian(dim);
  }
  return bytes;
}

// Images of 2x3 whose pixels count up through the file.
std::string images(std::uint32_t count) {
  std::string content = header(0x803, {count, 2, 3});
  for (std::uint32_t i = 0; i < 6 * count; ++i) {
    content += static_cast<char>(i);
  }
  return content;
}

std::string labels(const std::vector<int>& values) {
  std::string content = header(0x801, {static_cast<std::uint32_t>(values.size())});
  for (const int value : values) {
    content += static_cast<char>(value);
  }
  return content;
}

std::string gzip(const std::string& content) {
  z_stream stream{};
  EXPECT_EQ(::deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(content.size() + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  EXPECT_EQ(::deflateEnd(&stream), Z_OK);
  return packed;
}

DatasetContext at(const DataDir& dir, Split split = Split::kTrain) {
  return {.path = dir.path(), .split = split};
}

// A DataError, or a SharedError with its code: what is decoded, is decoded for all of a node.
std::string load_error(const DatasetContext& context) {
  return message_of<Error>([&] {
    try {
      make(idx(), context);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kData);
      throw;
    }
  });
}

std::string load_error(const DataDir& dir) { return load_error(at(dir)); }

TEST(Idx, ReadsEveryNameThatSuchFilesHave) {
  for (const std::string separator : {"-", "."}) {
    for (const bool packed : {false, true}) {
      const DataDir dir;
      const std::string ending = packed ? ".gz" : "";
      const auto pack = [&](const std::string& content) {
        return packed ? gzip(content) : content;
      };
      dir.write("train-images" + separator + "idx3-ubyte" + ending, pack(images(2)));
      dir.write("train-labels" + separator + "idx1-ubyte" + ending, pack(labels({7, 3})));
      dir.write("t10k-images" + separator + "idx3-ubyte" + ending, pack(images(1)));
      dir.write("t10k-labels" + separator + "idx1-ubyte" + ending, pack(labels({9})));
      const auto train = make(idx(), at(dir));
      EXPECT_EQ(train->size(), 2);
      EXPECT_EQ(train->spec().input_shape, (std::vector<std::int64_t>{1, 2, 3}));
      const test::Sample second = test::read(*train, 1);
      EXPECT_EQ(second.label(), 3);
      EXPECT_EQ(second.byte(0), 6);
      EXPECT_EQ(second.byte(5), 11);
      EXPECT_EQ(train->describe(1),
                dir.path() + "/train-images" + separator + "idx3-ubyte" + ending + " record 1");
      EXPECT_EQ(test::read(*make(idx(), at(dir, Split::kTest)), 0).label(), 9);
    }
  }
}

TEST(Idx, RanksOfANodeDecodeOnceAndReadTheSame) {
  const DataDir dir;
  dir.write("train-images-idx3-ubyte.gz", gzip(images(300000)));  // grows past its first memory
  dir.write("train-labels-idx1-ubyte.gz", gzip(labels(std::vector<int>(300000, 4))));
  run_as_threads(3, [&](Communicator& node) {
    DatasetContext context = at(dir);
    context.node = &node;
    const auto data = make(idx(), context);
    EXPECT_EQ(data->size(), 300000);
    EXPECT_EQ(test::read(*data, 299999).byte(5), static_cast<std::uint8_t>(6 * 300000 - 1));
  });
}

TEST(Idx, DamageIsReportedOnEveryRankOfTheNode) {
  const DataDir dir;
  const std::string packed = gzip(images(100));
  dir.write("train-images-idx3-ubyte.gz", packed.substr(0, packed.size() / 2));
  std::mutex mutex;
  std::vector<std::string> messages;
  run_as_threads(3, [&](Communicator& node) {
    DatasetContext context = at(dir);
    context.node = &node;
    const std::string message = load_error(context);
    const std::scoped_lock lock(mutex);
    messages.push_back(message);
  });
  EXPECT_THAT(messages, testing::Each(AllOf(HasSubstr("train-images-idx3-ubyte.gz"),
                                            HasSubstr("the file ends too early"))));
  EXPECT_EQ(messages.size(), 3U);
}

TEST(Idx, MissingFilesSayWhereItLooked) {
  const DataDir dir;
  EXPECT_THAT(load_error(dir), AllOf(HasSubstr(dir.path() + "/train-images-idx3-ubyte"),
                                     HasSubstr(".gz"), HasSubstr("scripts/get_data")));
  dir.write("train-images-idx3-ubyte", images(1));
  EXPECT_THAT(load_error(dir), HasSubstr(dir.path() + "/train-labels-idx1-ubyte"));
}

TEST(Idx, APipeInAFilesPlaceIsRefusedAndNotWaitedFor) {
  for (const char* ending : {"", ".gz"}) {
    const DataDir dir;
    const std::string path = dir.path() + "/train-images-idx3-ubyte" + ending;
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    EXPECT_THAT(load_error(at(dir)), HasSubstr("regular file")) << path;
  }
}

TEST(Idx, WrongMagicNumberIsNamed) {
  const DataDir dir;
  dir.write("train-images-idx3-ubyte", labels({1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_THAT(load_error(dir), AllOf(HasSubstr("train-images-idx3-ubyte offset 0"),
                                     HasSubstr("0x00000801, expected 0x00000803")));
  dir.write("train-images-idx3-ubyte", images(1));
  dir.write("train-labels-idx1-ubyte", images(1));
  EXPECT_THAT(load_error(dir), HasSubstr("0x00000803, expected 0x00000801"));
}

TEST(Idx, WrongLengthsAreErrors) {
  const std::string good = images(4);
  struct Case {
    std::string content, message;
  };
  for (const auto& [content, message] :
       {Case{"", "has 0 bytes, less than its header of 16"},
        Case{good.substr(0, 15), "has 15 bytes, less than its header of 16"},
        Case{good.substr(0, 30), "has 30 bytes, expected 40 by its header"},
        Case{good + "x", "has 41 bytes, expected 40 by its header"}}) {
    const DataDir dir;
    dir.write("train-images-idx3-ubyte", content);
    EXPECT_THAT(load_error(dir), HasSubstr(message));
  }
  for (const auto& [content, message] :
       {Case{gzip(""), "holds 0 decoded bytes, less than its header of 16"},
        Case{gzip(good.substr(0, 30)), "holds 30 decoded bytes, expected 40"},
        Case{gzip(good + "x"), "holds more than the 40 decoded bytes expected"},
        Case{good, "no gzip file"}}) {
    const DataDir dir;
    dir.write("train-images-idx3-ubyte.gz", content);
    EXPECT_THAT(load_error(dir), HasSubstr(message));
  }
}

TEST(Idx, DamagedGzipIsAnErrorWhereverItIsHit) {
  const std::string good = gzip(images(50));
  for (std::size_t flipped = 10; flipped < good.size(); ++flipped) {
    const DataDir dir;
    std::string content = good;
    content[flipped] = static_cast<char>(content[flipped] ^ 0x10);
    dir.write("train-images-idx3-ubyte.gz", content);
    EXPECT_THAT(load_error(dir), HasSubstr("train-images-idx3-ubyte.gz")) << flipped;
  }
}

TEST(Idx, HeadersThatClaimTooMuchAreErrorsAndTakeNoMemory) {
  constexpr std::uint32_t kMost = 0xFFFFFFFF;
  for (const bool packed : {false, true}) {
    for (const std::vector<std::uint32_t>& dims :
         {std::vector{kMost, kMost, kMost}, std::vector{kMost, kMost, 1U},
          std::vector{1U << 31U, 28U, 28U}}) {
      const DataDir dir;
      const std::string content = header(0x803, dims) + "x";
      dir.write(packed ? "train-images-idx3-ubyte.gz" : "train-images-idx3-ubyte",
                packed ? gzip(content) : content);
      EXPECT_THAT(load_error(dir),
                  testing::AnyOf(HasSubstr("impossibly large"), HasSubstr("by its header")));
    }
  }
}

TEST(Idx, NoImagesAreAnError) {
  const DataDir dir;
  dir.write("train-images-idx3-ubyte", header(0x803, {0, 28, 28}));
  EXPECT_THAT(load_error(dir), AllOf(HasSubstr("offset 4"), HasSubstr("a dimension of 0")));
}

TEST(Idx, AsManyLabelsAsImages) {
  const DataDir dir;
  dir.write("train-images-idx3-ubyte", images(3));
  dir.write("train-labels-idx1-ubyte", labels({1, 2}));
  EXPECT_THAT(load_error(dir), AllOf(HasSubstr("train-labels-idx1-ubyte: 2 labels"),
                                     HasSubstr("train-images-idx3-ubyte has 3 images")));
}

TEST(Idx, LabelOutOfRangeNamesFileAndRecord) {
  const DataDir dir;
  dir.write("train-images-idx3-ubyte", images(3));
  dir.write("train-labels-idx1-ubyte", labels({1, 10, 2}));
  EXPECT_THAT(load_error(dir), AllOf(HasSubstr("train-labels-idx1-ubyte record 1"),
                                     HasSubstr("10, expected 0 to 9 (data.classes)")));
  EXPECT_EQ(make(idx(), at(dir), {{"classes", std::int64_t{11}}})->spec().num_classes, 11);
}

}  // namespace
}  // namespace trireme
