// SPDX-License-Identifier: Apache-2.0
#include "data/image.hpp"

#include <zlib.h>

#include <algorithm>

#include "image_support.hpp"
#include "support.hpp"

namespace trireme {
namespace {

using test::message_of;
using testing::AllOf;
using testing::HasSubstr;

std::span<const std::byte> bytes(const std::string& content) {
  return std::as_bytes(std::span(content.data(), content.size()));
}

std::string decode_error(const std::string& content) {
  return message_of<DataError>([&] { decode_image(bytes(content), "cat.jpg"); });
}

TEST(Image, DecodesPngExactly) {
  const Image original = test::ramp_image(3, 5);
  const Image image = decode_image(bytes(test::encode_png(original)), "a.png");
  EXPECT_EQ(image.height, 3);
  EXPECT_EQ(image.width, 5);
  EXPECT_EQ(image.pixels, original.pixels);
}

TEST(Image, DecodesJpegClosely) {
  const Image original = test::ramp_image(16, 24);
  const Image image = decode_image(bytes(test::encode_jpeg(original)), "a.jpg");
  ASSERT_EQ(image.pixels.size(), original.pixels.size());
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    EXPECT_NEAR(image.pixels[i], original.pixels[i], 12);
  }
}

TEST(Image, TellsTheSizeFromTheHeaderAlone) {
  const std::string png = test::encode_png(test::ramp_image(30, 50));
  const std::string jpeg = test::encode_jpeg(test::ramp_image(30, 50));
  EXPECT_EQ(image_size(bytes(png.substr(0, 60)), "a"), (ImageSize{30, 50}));
  EXPECT_EQ(image_size(bytes(jpeg), "a"), (ImageSize{30, 50}));
}

TEST(Image, GreyStaysGrey) {
  const std::vector<std::uint8_t> greys = {0, 7, 100, 254, 255, 31};
  const Image image = decode_image(bytes(test::encode_grey_png(2, 3, greys)), "a.png");
  std::vector<std::byte> plane(6);
  write_planes(image, 1, plane);
  EXPECT_EQ(test::as<std::uint8_t>(plane), greys);
}

TEST(Image, WritesPlanes) {
  const Image image{1, 2, {10, 20, 30, 40, 50, 60}};
  std::vector<std::byte> planes(6);
  write_planes(image, 3, planes);
  EXPECT_EQ(test::as<std::uint8_t>(planes), (std::vector<std::uint8_t>{10, 40, 20, 50, 30, 60}));
  // PIL: Image.new("RGB", (1, 1), (10, 20, 30)).convert("L"), and (40, 50, 60)
  std::vector<std::byte> luma(2);
  write_planes(image, 1, luma);
  EXPECT_EQ(test::as<std::uint8_t>(luma), (std::vector<std::uint8_t>{18, 48}));
}

TEST(Image, WhatIsNoImageIsNamed) {
  EXPECT_EQ(decode_error(""), "cat.jpg: the file is empty, expected a JPEG or PNG image");
  for (const std::string content : {"x", "GIF89a........", "\xFF\xD8", "\x89PNG"}) {
    EXPECT_EQ(decode_error(content), "cat.jpg: this is neither a JPEG nor a PNG image");
  }
}

TEST(Image, EveryTruncationIsAnError) {
  const Image original = test::ramp_image(16, 16);
  for (const std::string& whole : {test::encode_jpeg(original), test::encode_png(original)}) {
    // The last bytes are an end mark, which decoders do without.
    for (std::size_t length = 0; length + 20 < whole.size(); length += 7) {
      EXPECT_THAT(decode_error(whole.substr(0, length)), HasSubstr("cat.jpg: ")) << length;
    }
  }
  EXPECT_THAT(decode_error(test::encode_jpeg(original).substr(0, 400)),
              HasSubstr("cannot decode this JPEG image"));
  EXPECT_THAT(decode_error(test::encode_png(original).substr(0, 60)),
              HasSubstr("cannot decode this PNG image"));
}

TEST(Image, AFlippedBitInPngDataIsAnError) {
  std::string content = test::encode_png(test::ramp_image(16, 16));
  content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 1);
  EXPECT_THAT(decode_error(content), HasSubstr("cannot decode this PNG image"));
}

TEST(Image, AHeaderThatClaimsTooManyPixelsTakesNoMemory) {
  std::string jpeg = test::encode_jpeg(test::ramp_image(8, 8));
  const std::size_t frame = jpeg.find("\xFF\xC0");  // start of frame: length, precision, H, W
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xFF\xDC\xFF\xDC");
  EXPECT_THAT(decode_error(jpeg),
              AllOf(HasSubstr("65500x65500"), HasSubstr("at most 134217728 pixels")));
}

TEST(Image, APngThatClaimsMorePixelsThanItsBytesCanHoldTakesNoMemory) {
  std::string png = test::encode_png(test::ramp_image(8, 8));
  const std::size_t header = png.find("IHDR");  // then width, height, 5 bytes, and a CRC of it all
  ASSERT_NE(header, std::string::npos);
  png.replace(header + 4, 8, std::string("\0\0\x20\0\0\0\x20\0", 8));
  const auto* bytes = reinterpret_cast<const Bytef*>(png.data() + header);
  const auto crc = static_cast<std::uint32_t>(crc32(0, bytes, 17));
  for (int i = 0; i < 4; ++i)
    png[header + 17 + static_cast<std::size_t>(i)] = static_cast<char>(crc >> (24 - 8 * i));
  EXPECT_THAT(decode_error(png), AllOf(HasSubstr("8192x8192"), HasSubstr("bytes cannot hold")));
}

TEST(Resize, TakesNoMoreOfALongImageThanItsMiddle) {
  // 30 million rows would be 368 GB in the width of the result.
  constexpr std::int64_t kLong = 30'000'000;
  for (const bool tall : {true, false}) {
    Image image{tall ? kLong : 1, tall ? 1 : kLong, std::vector<std::uint8_t>(3 * kLong, 50)};
    const Image square = resize_and_crop(image, 4096);
    EXPECT_EQ(square.height, 4096);
    EXPECT_EQ(square.width, 4096);
    EXPECT_TRUE(std::ranges::all_of(square.pixels, [](int value) { return value == 50; }));
  }
}

TEST(Resize, KeepsAnImageOfTheRightSize) {
  const Image image = test::ramp_image(5, 5);
  EXPECT_EQ(resize_and_crop(image, 5).pixels, image.pixels);
}

TEST(Resize, CutsOutTheMiddle) {
  const Image wide = test::ramp_image(4, 10);
  const Image square = resize_and_crop(wide, 4);
  EXPECT_EQ(square.width, 4);
  for (std::int64_t y = 0; y < 4; ++y) {
    for (std::int64_t x = 0; x < 4 * 3; ++x) {
      EXPECT_EQ(square.pixels[static_cast<std::size_t>(y * 12 + x)],
                wide.pixels[static_cast<std::size_t>(y * 30 + 9 + x)]);
    }
  }
  EXPECT_EQ(resize_and_crop(test::ramp_image(10, 4), 4).height, 4);
}

// One colour of each pixel.
std::vector<int> first_colour(const Image& image) {
  std::vector<int> values;
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
    values.push_back(image.pixels[i]);
  }
  return values;
}

Image grey_square(std::int64_t side, const std::vector<std::uint8_t>& values) {
  Image image{side, side, {}};
  for (const std::uint8_t value : values) {
    image.pixels.insert(image.pixels.end(), 3, value);
  }
  return image;
}

// Expected: PIL's resize((2, 2), Image.BILINEAR) and resize((3, 3), Image.BILINEAR).
TEST(Resize, GivesWhatPillowGives) {
  const Image four =
      grey_square(4, {0, 10, 200, 255, 30, 90, 120, 60, 255, 0, 0, 255, 17, 34, 51, 68});
  EXPECT_EQ(first_colour(resize_and_crop(four, 2)), (std::vector<int>{59, 138, 69, 84}));
  const Image two = grey_square(2, {0, 100, 200, 50});
  EXPECT_EQ(first_colour(resize_and_crop(two, 3)),
            (std::vector<int>{0, 50, 100, 100, 88, 75, 200, 125, 50}));
}

}  // namespace
}  // namespace trireme
