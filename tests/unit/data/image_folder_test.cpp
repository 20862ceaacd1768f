// SPDX-License-Identifier: Apache-2.0
#include <mutex>

#include "comm/threads.hpp"
#include "image_support.hpp"
#include "support.hpp"

namespace trireme {
namespace {

using test::DataDir;
using test::make;
using test::message_of;
using testing::AllOf;
using testing::HasSubstr;

using Changes = std::vector<std::pair<std::string, OptionValue>>;

const std::string kPng = test::encode_png(test::ramp_image(4, 6));
const std::string kJpeg = test::encode_jpeg(test::ramp_image(4, 6));

DatasetContext at(const DataDir& dir, Split split = Split::kTrain) {
  return {.path = dir.path(), .split = split};
}

// Two classes in both splits; "cat" has two training images.
void write_images(const DataDir& dir) {
  dir.write("train/dog/1.png", kPng);
  dir.write("train/cat/b.jpg", kJpeg);
  dir.write("train/cat/a.png", kPng);
  dir.write("test/cat/a.png", kPng);
  dir.write("test/dog/a.png", kPng);
}

std::string load_error(const DataDir& dir, const Changes& changes = {},
                       Split split = Split::kTrain) {
  return message_of<DataError>([&] { make(image_folder(), at(dir, split), changes); });
}

TEST(ImageFolder, SortsClassesAndImagesByName) {
  const DataDir dir;
  write_images(dir);
  const auto data = make(image_folder(), at(dir));
  EXPECT_EQ(data->size(), 3);
  EXPECT_EQ(data->spec().input_shape, (std::vector<std::int64_t>{3, 4, 6}));
  EXPECT_EQ(data->spec().num_classes, 2);
  EXPECT_EQ(data->describe(0), dir.path() + "/train/cat/a.png");
  EXPECT_EQ(data->describe(2), dir.path() + "/train/dog/1.png");
  EXPECT_EQ(test::read(*data, 1).label(), 0);
  const test::Sample dog = test::read(*data, 2);
  EXPECT_EQ(dog.label(), 1);
  EXPECT_EQ(dog.byte(5), 20 + 3 * 5);       // red, first row
  EXPECT_EQ(dog.byte(24 + 6), 40 + 4 * 1);  // green, second row
  EXPECT_EQ(make(image_folder(), at(dir, Split::kTest))->size(), 2);
}

TEST(ImageFolder, ResizesAndTurnsGreyWhereAsked) {
  const DataDir dir;
  write_images(dir);
  dir.write("train/cat/c.png", test::encode_png(test::ramp_image(9, 5)));
  const auto data =
      make(image_folder(), at(dir), {{"size", std::int64_t{4}}, {"channels", std::int64_t{1}}});
  EXPECT_EQ(data->spec().input_shape, (std::vector<std::int64_t>{1, 4, 4}));
  for (std::int64_t i = 0; i < data->size(); ++i) {
    EXPECT_GT(test::read(*data, i).byte(0), 0);
  }
}

TEST(ImageFolder, SplitsMayHaveOtherNames) {
  const DataDir dir;
  dir.write("t/cat/1", kPng);
  dir.write("val/cat/1", kJpeg);
  const Changes changes = {{"train_dir", std::string("t")}, {"test_dir", std::string("val")}};
  EXPECT_EQ(make(image_folder(), at(dir), changes)->size(), 1);
  EXPECT_EQ(make(image_folder(), at(dir, Split::kTest), changes)->describe(0),
            dir.path() + "/val/cat/1");
}

TEST(ImageFolder, StrangeNamesAreNamesAndHiddenFilesAreNone) {
  const DataDir dir;
  for (const std::string name : {"-rf", "a b", "\xFF\xFE", "new\nline", "$(x)'\"", "no ending"}) {
    dir.write("train/" + name + "/" + name, kPng);
  }
  dir.write("train/.hidden/x", "no image");
  dir.write("train/-rf/.DS_Store", "no image");
  dir.write("train/README.txt", "not a class");
  const auto data = make(image_folder(), at(dir));
  EXPECT_EQ(data->size(), 6);
  EXPECT_EQ(data->spec().num_classes, 6);
  for (std::int64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(test::read(*data, i).label(), i);
  }
}

TEST(ImageFolder, ClassesThatAreMissingOrEmptyAreNamed) {
  const DataDir dir;
  EXPECT_THAT(load_error(dir), AllOf(HasSubstr(dir.path() + "/train: cannot list the folder"),
                                     HasSubstr("No such file"), HasSubstr("TRAIN/CLASS/image")));
  dir.write("train/stray.png", kPng);
  EXPECT_THAT(load_error(dir), HasSubstr("/train: there is no class folder"));
  write_images(dir);
  std::filesystem::create_directory(dir.path() + "/train/bird");
  EXPECT_THAT(load_error(dir), HasSubstr("/train/bird: the class has no image"));
  EXPECT_THAT(load_error(dir, {}, Split::kTest), HasSubstr("/test/bird: the class has no image"));
  dir.write("test/fish/1.png", kPng);
  EXPECT_THAT(load_error(dir, {}, Split::kTest),
              AllOf(HasSubstr("/test/fish"), HasSubstr("no class of this name")));
}

TEST(ImageFolder, FoldersAmongTheImagesAreErrors) {
  const DataDir dir;
  write_images(dir);
  dir.write("train/cat/more/1.png", kPng);
  EXPECT_THAT(load_error(dir), HasSubstr("/train/cat/more: a folder among the images"));
}

TEST(ImageFolder, OptionsAreChecked) {
  const DataDir dir;
  write_images(dir);
  EXPECT_THAT(load_error(dir, {{"channels", std::int64_t{2}}}),
              HasSubstr("expected 1 (grey) or 3"));
  EXPECT_THAT(message_of<DataError>([] { make(image_folder(), {}); }),
              HasSubstr("data.path is not set"));
}

// Every kind of bad image, in class cat after a.png and before d.png.
void write_bad_images(const DataDir& dir) {
  write_images(dir);
  dir.write("train/cat/c1.jpg", kJpeg.substr(0, kJpeg.size() / 2));
  dir.write("train/cat/c2.png", "");
  dir.write("train/cat/c3.png", "some text");
  dir.write("train/cat/c4.png", test::encode_png(test::ramp_image(5, 5)));
  std::filesystem::create_symlink("nowhere", dir.path() + "/train/cat/c5.png");
  dir.write("train/cat/d.png", kPng);
}

TEST(ImageFolder, BadImagesAreErrorsWhenTheyAreRead) {
  const DataDir dir;
  write_bad_images(dir);
  const auto data = make(image_folder(), at(dir));
  const auto error = [&](std::int64_t index) {
    return message_of<DataError>([&] { test::read(*data, index); });
  };
  EXPECT_THAT(error(2), AllOf(HasSubstr("c1.jpg"), HasSubstr("cannot decode this JPEG image")));
  EXPECT_THAT(error(3), AllOf(HasSubstr("c2.png"), HasSubstr("the file is empty")));
  EXPECT_THAT(error(4), AllOf(HasSubstr("c3.png"), HasSubstr("neither a JPEG nor a PNG")));
  EXPECT_THAT(error(5), AllOf(HasSubstr("c4.png: the image is 5x5, expected 6x4"),
                              HasSubstr("set data.size")));
  EXPECT_THAT(error(6), AllOf(HasSubstr("c5.png"), HasSubstr("No such file")));
  EXPECT_EQ(test::read(*data, 7).label(), 0);
}

TEST(ImageFolder, TheFirstImageMustTellTheSize) {
  const DataDir dir;
  write_images(dir);
  dir.write("train/cat/a.png", "some text");
  EXPECT_THAT(load_error(dir), HasSubstr("train/cat/a.png: this is neither"));
  EXPECT_EQ(make(image_folder(), at(dir), {{"on_corrupt", std::string("skip")}})->size(), 2);
}

TEST(ImageFolder, SkipLeavesOutTheSameImagesOnEveryRankAndSaysSo) {
  const DataDir dir;
  write_bad_images(dir);
  const Changes skip = {{"on_corrupt", std::string("skip")}};
  for (const int ranks : {1, 2, 5, 11}) {
    std::mutex mutex;
    std::vector<std::string> warnings;
    run_as_threads(ranks, [&](Communicator& node) {
      DatasetContext context = at(dir);
      context.node = &node;
      context.warn = [&](const std::string& text) {
        const std::scoped_lock lock(mutex);
        warnings.push_back(text);
      };
      const auto data = make(image_folder(), context, skip);
      ASSERT_EQ(data->size(), 4);
      EXPECT_EQ(data->describe(2), dir.path() + "/train/cat/d.png");
      for (std::int64_t i = 0; i < 4; ++i) {
        test::read(*data, i);
      }
    });
    EXPECT_EQ(warnings.size(), static_cast<std::size_t>(ranks));
    EXPECT_THAT(warnings, testing::Each(AllOf(HasSubstr("5 of 9 images skipped"),
                                              HasSubstr("c1.jpg: cannot decode"))));
  }
}

TEST(ImageFolder, SkippingAWholeClassIsAnError) {
  const DataDir dir;
  write_images(dir);
  dir.write("train/dog/1.png", "some text");
  EXPECT_THAT(load_error(dir, {{"on_corrupt", std::string("skip")}}),
              HasSubstr("/train/dog: the class has no image"));
}

}  // namespace
}  // namespace trireme
