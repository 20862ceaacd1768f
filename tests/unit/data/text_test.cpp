// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

namespace trireme {
namespace {

using test::as;
using test::DataDir;
using test::make;
using test::message_of;
using testing::AllOf;
using testing::HasSubstr;

using Tokens = std::vector<std::int64_t>;
using Changes = std::vector<std::pair<std::string, OptionValue>>;

const Changes kThree = {{"context", std::int64_t{3}}, {"test_fraction", 0.4}};

TEST(Text, CutsTheFileIntoWindowsWhoseTargetIsTheNextByte) {
  const DataDir dir;
  const std::string path = dir.write("text", "abcdefgh\xFFj12345678");  // 18 bytes, 10 to train
  const auto data = make(text(), {.path = path}, kThree);
  EXPECT_EQ(data->size(), 2);
  EXPECT_EQ(data->spec().input_shape, (Tokens{3}));
  EXPECT_EQ(data->spec().target_shape, (Tokens{3}));
  EXPECT_EQ(data->spec().num_classes, 256);
  EXPECT_EQ(as<std::int64_t>(test::read(*data, 0).input), (Tokens{'a', 'b', 'c'}));
  EXPECT_EQ(as<std::int64_t>(test::read(*data, 0).target), (Tokens{'b', 'c', 'd'}));
  EXPECT_EQ(as<std::int64_t>(test::read(*data, 1).input), (Tokens{'e', 'f', 'g'}));
  EXPECT_EQ(data->describe(1), path + " offset 4");
}

TEST(Text, TheTestSplitIsTheLastPart) {
  const DataDir dir;
  const std::string path = dir.write("text", "abcdefgh\xFFj12345678");
  const auto data = make(text(), {.path = path, .split = Split::kTest}, kThree);
  EXPECT_EQ(data->size(), 2);
  EXPECT_EQ(as<std::int64_t>(test::read(*data, 0).input), (Tokens{'1', '2', '3'}));
  EXPECT_EQ(data->describe(0), path + " offset 10");
}

TEST(Text, BytesAbove127AreTokensToo) {
  const DataDir dir;
  const std::string path = dir.write("text", "\xFF\x80\x7F\x01\x01\x01\x01");
  EXPECT_EQ(as<std::int64_t>(test::read(*make(text(), {.path = path}, kThree), 0).input),
            (Tokens{255, 128, 127}));
}

TEST(Text, TooShortFilesAreErrors) {
  const DataDir dir;
  for (const std::string content : {"", "abc", "abcdef"}) {
    const std::string path = dir.write("text", content);
    EXPECT_THAT(message_of<DataError>([&] { make(text(), {.path = path}, kThree); }),
                AllOf(HasSubstr(path + ": the training part has"),
                      HasSubstr("the file's " + std::to_string(content.size()) + " bytes"),
                      HasSubstr("at least one sample of 4"), HasSubstr("data.context")));
  }
  const std::string path = dir.write("text", "abcdefgh");
  EXPECT_THAT(message_of<DataError>([&] {
                make(text(), {.path = path, .split = Split::kTest},
                     {{"context", std::int64_t{3}}, {"test_fraction", 0.0}});
              }),
              HasSubstr("the test part has 0 of"));
}

TEST(Text, MissingFilesAreErrors) {
  EXPECT_THAT(message_of<DataError>([] { make(text(), {}); }), HasSubstr("data.path is not set"));
  const DataDir dir;
  EXPECT_THAT(message_of<DataError>([&] { make(text(), {.path = dir.path() + "/none"}); }),
              AllOf(HasSubstr("/none: cannot open: No such file"), HasSubstr("set data.path")));
  EXPECT_THAT(message_of<DataError>([&] { make(text(), {.path = dir.path()}); }),
              HasSubstr("no regular file"));
}

}  // namespace
}  // namespace trireme
