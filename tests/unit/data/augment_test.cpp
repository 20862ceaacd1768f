// SPDX-License-Identifier: Apache-2.0
#include "data/augment.hpp"

#include <set>

#include "base/philox.hpp"
#include "support.hpp"

namespace trireme {
namespace {

using test::as;
using test::message_of;
using testing::HasSubstr;

DatasetSpec images(std::int64_t channels, std::int64_t height, std::int64_t width) {
  DatasetSpec spec;
  spec.input_shape = {channels, height, width};
  spec.num_classes = 10;
  return spec;
}

// Pixels 1, 2, 3, ...: none is 0, which means black below.
std::vector<std::byte> ramp(const DatasetSpec& spec) {
  std::vector<std::byte> image(spec.input_bytes());
  for (std::size_t i = 0; i < image.size(); ++i) {
    image[i] = static_cast<std::byte>(1 + i % 255);
  }
  return image;
}

std::vector<float> augment(const DatasetSpec& spec, const AugmentOptions& options,
                           std::optional<std::int64_t> epoch, std::int64_t sample) {
  std::vector<std::byte> output(spec.input_bytes() * sizeof(float));
  Augmenter(spec, options).apply(ramp(spec), epoch, sample, output);
  return as<float>(output);
}

// The same in the plainest way: mirror, pad, cut, normalise, one pixel at a time.
struct Naive {
  DatasetSpec spec;
  AugmentOptions options;

  int pixel(std::int64_t c, std::int64_t y, std::int64_t x) const {
    const std::int64_t height = spec.input_shape[1];
    const std::int64_t width = spec.input_shape[2];
    const auto inside = [&](std::int64_t& at, std::int64_t length) {
      if (at >= 0 && at < length) return true;
      at = at < 0 ? -at : 2 * length - 2 - at;
      return options.crop_fill == "reflect";
    };
    if (!inside(y, height) || !inside(x, width)) return 0;
    return static_cast<int>(1 + ((c * height + y) * width + x) % 255);
  }

  bool mirrored(std::uint64_t epoch, std::uint64_t sample) const {
    if (options.flip == "random") {
      return draw(options.seed, Stream::kFlip, epoch, sample)[0] % 2 == 1;
    }
    return options.flip == "alternate" &&
           (draw(options.seed, Stream::kFlip, 0, sample)[0] + epoch) % 2 == 1;
  }

  std::vector<float> apply(std::uint64_t epoch, std::uint64_t sample) const {
    const auto words = draw(options.seed, Stream::kCrop, epoch, sample);
    const auto sides = static_cast<std::uint64_t>(2 * options.crop_padding + 1);
    const std::int64_t dy = std::int64_t{below(words[0], sides)} - options.crop_padding;
    const std::int64_t dx = std::int64_t{below(words[1], sides)} - options.crop_padding;
    const auto [channels, height, width] =
        std::array{spec.input_shape[0], spec.input_shape[1], spec.input_shape[2]};
    std::vector<float> result(spec.input_bytes());
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t y = 0; y < height; ++y) {
        for (std::int64_t x = 0; x < width; ++x) {
          const std::int64_t column = mirrored(epoch, sample) ? width - 1 - (x + dx) : x + dx;
          const auto channel = static_cast<std::size_t>(c);
          const float scaled = static_cast<float>(pixel(c, y + dy, column)) / 255.0F;
          const auto at =
              static_cast<std::size_t>(options.channels_last ? (y * width + x) * channels + c
                                                             : (c * height + y) * width + x);
          result[at] = (scaled - static_cast<float>(options.mean[channel])) /
                       static_cast<float>(options.std[channel]);
        }
      }
    }
    return result;
  }
};

TEST(Augment, EqualsAPlainReferenceBitForBit) {
  for (const char* flip : {"none", "random", "alternate"}) {
    for (const char* fill : {"zero", "reflect"}) {
      for (const bool channels_last : {false, true}) {
        const Naive naive{images(3, 5, 7),
                          {.mean = {.4914, .4822, .4465},
                           .std = {.2470, .2435, .2616},
                           .flip = flip,
                           .crop_padding = 2,
                           .crop_fill = fill,
                           .channels_last = channels_last,
                           .seed = 9}};
        for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
          for (std::int64_t sample = 0; sample < 20; ++sample) {
            ASSERT_EQ(
                augment(naive.spec, naive.options, epoch, sample),
                naive.apply(static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(sample)))
                << flip << ' ' << fill << ' ' << channels_last;
          }
        }
      }
    }
  }
}

TEST(Augment, NormalisesAsPyTorchDoes) {
  // torch.tensor([0, 1, 128, 255], dtype=torch.uint8).float().div(255).sub(.4914).div(.247)
  const AugmentOptions options{.mean = {.4914}, .std = {.2470}};
  std::vector<std::byte> output(16);
  const std::vector<std::byte> image{std::byte{0}, std::byte{1}, std::byte{128}, std::byte{255}};
  Augmenter(images(1, 2, 2), options).apply(image, std::nullopt, 0, output);
  EXPECT_EQ(as<float>(output),
            (std::vector<float>{-1.9894737F, -1.97359693F, 0.042756319F, 2.05910945F}));
}

TEST(Augment, WithoutMeanAndStdScalesToOne) {
  const auto values = augment(images(1, 1, 255), {}, std::nullopt, 0);
  EXPECT_EQ(values.front(), 1.0F / 255.0F);
  EXPECT_EQ(values.back(), 1.0F);
}

// All crops of a one-row image, as bytes.
std::set<std::vector<int>> crops(const std::string& fill) {
  std::set<std::vector<int>> seen;
  for (std::int64_t sample = 0; sample < 200; ++sample) {
    std::vector<int> pixels;
    for (const float value :
         augment(images(1, 3, 3), {.crop_padding = 1, .crop_fill = fill}, 0, sample)) {
      pixels.push_back(static_cast<int>(value * 255.0F + 0.5F));
    }
    seen.insert(pixels);
  }
  return seen;
}

TEST(Augment, ReflectDoesNotRepeatTheEdge) {
  // numpy.pad([[1,2,3],[4,5,6],[7,8,9]], 1, mode="reflect"), its four corners and its centre
  const auto seen = crops("reflect");
  EXPECT_EQ(seen.size(), 9U);
  EXPECT_TRUE(seen.contains({5, 4, 5, 2, 1, 2, 5, 4, 5}));
  EXPECT_TRUE(seen.contains({5, 6, 5, 2, 3, 2, 5, 6, 5}));
  EXPECT_TRUE(seen.contains({5, 4, 5, 8, 7, 8, 5, 4, 5}));
  EXPECT_TRUE(seen.contains({5, 6, 5, 8, 9, 8, 5, 6, 5}));
  EXPECT_TRUE(seen.contains({1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(Augment, ZeroFillsWithBlack) {
  const auto seen = crops("zero");
  EXPECT_EQ(seen.size(), 9U);
  EXPECT_TRUE(seen.contains({0, 0, 0, 0, 1, 2, 0, 4, 5}));
  EXPECT_TRUE(seen.contains({5, 6, 0, 8, 9, 0, 0, 0, 0}));
}

int count_mirrored(const std::string& flip, std::int64_t epoch) {
  int count = 0;
  for (std::int64_t sample = 0; sample < 1000; ++sample) {
    count += augment(images(1, 1, 2), {.flip = flip}, epoch, sample)[0] > 1.5F / 255 ? 1 : 0;
  }
  return count;
}

TEST(Augment, FlipsAboutHalfOfTheImages) {
  EXPECT_EQ(count_mirrored("none", 0), 0);
  for (const char* flip : {"random", "alternate"}) {
    EXPECT_NEAR(count_mirrored(flip, 0), 500, 60);
  }
}

TEST(Augment, AlternateShowsTheMirrorImageInEveryOtherEpoch) {
  for (std::int64_t sample = 0; sample < 20; ++sample) {
    const auto at = [&](std::int64_t epoch) {
      return augment(images(1, 1, 2), {.flip = "alternate", .seed = 3}, epoch, sample);
    };
    EXPECT_NE(at(0), at(1));
    EXPECT_EQ(at(0), at(2));
    EXPECT_EQ(at(1), at(3));
  }
}

TEST(Augment, RandomFlipIsDrawnAnewEachEpoch) {
  int changed = 0;
  for (std::int64_t sample = 0; sample < 100; ++sample) {
    const auto at = [&](std::int64_t epoch) {
      return augment(images(1, 1, 2), {.flip = "random"}, epoch, sample);
    };
    changed += at(0) != at(1) ? 1 : 0;
  }
  EXPECT_NEAR(changed, 50, 25);
}

TEST(Augment, WithoutAnEpochNothingIsDrawn) {
  const AugmentOptions options{.flip = "random", .crop_padding = 1};
  for (std::int64_t sample = 0; sample < 20; ++sample) {
    EXPECT_EQ(augment(images(1, 3, 3), options, std::nullopt, sample),
              augment(images(1, 3, 3), {}, 5, sample));
  }
}

TEST(Augment, OptionsThatDoNotFitAreErrors) {
  const auto error = [](const AugmentOptions& options) {
    return message_of<ConfigError>([&] { Augmenter(images(3, 4, 6), options); });
  };
  EXPECT_THAT(error({.mean = {.5}}), HasSubstr("data.mean has 1 values, but the images have 3"));
  EXPECT_THAT(error({.std = {1, 1}}), HasSubstr("data.std has 2 values"));
  EXPECT_THAT(error({.std = {1, 0, 1}}), HasSubstr("data.std of channel 1"));
  EXPECT_THAT(error({.flip = "always"}), HasSubstr("none, random or alternate"));
  EXPECT_THAT(error({.crop_fill = "red"}), HasSubstr("zero or reflect"));
  EXPECT_THAT(error({.crop_padding = 4, .crop_fill = "reflect"}), HasSubstr("0 to 3 pixels"));
}

TEST(Augment, ABorderWiderThanTheImageCanBeBlack) {
  bool black = false;
  for (std::int64_t sample = 0; sample < 100; ++sample) {
    const auto values = augment(images(1, 2, 2), {.crop_padding = 4}, 0, sample);
    black = black || values == std::vector<float>(4, 0.0F);
  }
  EXPECT_TRUE(black);
}

}  // namespace
}  // namespace trireme
