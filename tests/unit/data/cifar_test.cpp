// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "support.hpp"

namespace trireme {
namespace {

using test::DataDir;
using test::make;
using test::message_of;
using testing::AllOf;
using testing::HasSubstr;

// Records whose labels count up from `first` and whose pixels tell plane and record.
std::string records(int count, int label_bytes, int first) {
  std::string content;
  for (int i = 0; i < count; ++i) {
    content += label_bytes == 2 ? std::string(1, 'c') : "";  // the coarse label
    content += static_cast<char>(first + i);
    for (int plane = 0; plane < 3; ++plane) {
      content += std::string(1024, static_cast<char>(100 * plane + i));
    }
  }
  return content;
}

const std::vector<std::pair<std::string, OptionValue>> kAnyLength = {{"any_length", true}};

DatasetContext at(const std::string& path, Split split = Split::kTrain) {
  return {.path = path, .split = split};
}

void write_cifar10(const DataDir& dir, const std::string& folder = "") {
  for (int file = 1; file <= 5; ++file) {
    dir.write(folder + "data_batch_" + std::to_string(file) + ".bin", records(file, 1, file));
  }
  dir.write(folder + "test_batch.bin", records(2, 1, 8));
}

TEST(Cifar10, ReadsAllTrainingFilesInOrder) {
  const DataDir dir;
  write_cifar10(dir);
  const auto data = make(cifar10(), at(dir.path()), kAnyLength);
  EXPECT_EQ(data->size(), 1 + 2 + 3 + 4 + 5);
  EXPECT_EQ(data->spec().input_shape, (std::vector<std::int64_t>{3, 32, 32}));
  EXPECT_EQ(data->spec().num_classes, 10);
  const test::Sample sample = test::read(*data, 4);  // record 1 of the third file
  EXPECT_EQ(sample.label(), 4);
  EXPECT_EQ(sample.byte(0), 1);
  EXPECT_EQ(sample.byte(1024), 101);
  EXPECT_EQ(sample.byte(3071), 201);
  EXPECT_EQ(data->describe(4), dir.path() + "/data_batch_3.bin record 1");
  EXPECT_EQ(test::read(*data, 14).label(), 9);
}

TEST(Cifar10, ReadsTheTestSplit) {
  const DataDir dir;
  write_cifar10(dir);
  const auto data = make(cifar10(), at(dir.path(), Split::kTest), kAnyLength);
  EXPECT_EQ(data->size(), 2);
  EXPECT_EQ(test::read(*data, 1).label(), 9);
}

TEST(Cifar10, IsFoundInTheParentFolderToo) {
  const DataDir dir;
  write_cifar10(dir, "cifar-10-batches-bin/");
  EXPECT_EQ(make(cifar10(), at(dir.path()), kAnyLength)->size(), 15);
}

TEST(Cifar10, MissingFileSaysWhereItLookedAndHowToGetIt) {
  const DataDir dir;
  EXPECT_THAT(message_of<DataError>([&] { make(cifar10(), at(dir.path())); }),
              AllOf(HasSubstr(dir.path() + "/data_batch_1.bin"), HasSubstr("No such file"),
                    HasSubstr("scripts/get_data cifar10")));
  EXPECT_THAT(message_of<DataError>([] { make(cifar10(), at("")); }),
              AllOf(HasSubstr("data.path is not set"), HasSubstr("cifar-10-batches-bin")));
}

TEST(Cifar10, AFolderInPlaceOfAFileIsNamed) {
  const DataDir dir;
  dir.write("data_batch_1.bin/x", "");
  EXPECT_THAT(message_of<DataError>([&] { make(cifar10(), at(dir.path())); }),
              AllOf(HasSubstr("data_batch_1.bin"), HasSubstr("no regular file")));
}

TEST(Cifar10, AnotherLengthThanTheOfficialOneIsAnError) {
  const DataDir dir;
  write_cifar10(dir);
  EXPECT_THAT(
      message_of<DataError>([&] { make(cifar10(), at(dir.path())); }),
      AllOf(HasSubstr("data_batch_1.bin: the file has 3073 bytes"),
            HasSubstr("expected 30730000 (10000 records of 3073)"), HasSubstr("truncated")));
}

TEST(Cifar10, PartOfARecordIsAnErrorWhereAnyLengthIsAccepted) {
  const DataDir dir;
  write_cifar10(dir);
  for (const std::string& content : {std::string(), records(2, 1, 0).substr(0, 3074)}) {
    dir.write("data_batch_2.bin", content);
    EXPECT_THAT(message_of<DataError>([&] { make(cifar10(), at(dir.path()), kAnyLength); }),
                AllOf(HasSubstr("data_batch_2.bin: the file has " + std::to_string(content.size())),
                      HasSubstr("one or more records of 3073"), HasSubstr("truncated")));
  }
}

TEST(Cifar10, LabelOutOfRangeNamesFileRecordAndOffset) {
  const DataDir dir;
  write_cifar10(dir);
  dir.write("data_batch_4.bin", records(3, 1, 8));
  EXPECT_THAT(message_of<DataError>([&] { make(cifar10(), at(dir.path()), kAnyLength); }),
              AllOf(HasSubstr("data_batch_4.bin record 2 (offset 6146)"),
                    HasSubstr("the label is 10, expected 0 to 9")));
}

TEST(Cifar100, ReadsTheFineLabels) {
  const DataDir dir;
  dir.write("train.bin", records(3, 2, 97));
  dir.write("test.bin", records(1, 2, 5));
  const auto data = make(cifar100(), at(dir.path()), kAnyLength);
  EXPECT_EQ(data->size(), 3);
  EXPECT_EQ(data->spec().num_classes, 100);
  const test::Sample sample = test::read(*data, 2);
  EXPECT_EQ(sample.label(), 99);
  EXPECT_EQ(sample.byte(0), 2);
  EXPECT_EQ(sample.byte(3071), 202);
  EXPECT_EQ(make(cifar100(), at(dir.path(), Split::kTest), kAnyLength)->size(), 1);
  EXPECT_THAT(message_of<DataError>([&] { make(cifar100(), at(dir.path())); }),
              HasSubstr("expected 153700000"));
  EXPECT_THAT(message_of<DataError>([&] { make(cifar100(), at(dir.path(), Split::kTest)); }),
              HasSubstr("expected 30740000"));
}

TEST(Cifar100, LabelOutOfRangeIsAnError) {
  const DataDir dir;
  dir.write("train.bin", records(2, 2, 99));
  EXPECT_THAT(message_of<DataError>([&] { make(cifar100(), at(dir.path()), kAnyLength); }),
              AllOf(HasSubstr("train.bin record 1 (offset 3075)"), HasSubstr("expected 0 to 99")));
}

}  // namespace
}  // namespace trireme
