// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "data/image.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

constexpr std::int64_t kColours = 3;

// What one output pixel takes from a line of source pixels.
struct Tap {
  std::int64_t first = 0;
  std::vector<float> weights;  // of source pixels first, first + 1, ...; their sum is 1
};

// Taps of `count` output pixels from `offset` on, of a line of `source` pixels scaled to `target`:
// a triangle as wide as two source pixels, or two output pixels where those are larger.
std::vector<Tap> taps(std::int64_t source, std::int64_t target, std::int64_t offset,
                      std::int64_t count) {
  const double scale = static_cast<double>(source) / static_cast<double>(target);
  const double radius = std::max(scale, 1.0);
  std::vector<Tap> result(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    Tap& tap = result[static_cast<std::size_t>(i)];
    const double centre = (static_cast<double>(offset + i) + 0.5) * scale;
    tap.first = std::max<std::int64_t>(0, std::llround(std::floor(centre - radius + 0.5)));
    const auto end = std::min(source, static_cast<std::int64_t>(std::floor(centre + radius + 0.5)));
    double sum = 0;
    std::vector<double> weights;
    for (std::int64_t at = tap.first; at < end; ++at) {
      const double distance = std::abs(static_cast<double>(at) + 0.5 - centre) / radius;
      weights.push_back(std::max(0.0, 1.0 - distance));
      sum += weights.back();
    }
    for (const double weight : weights) {
      tap.weights.push_back(static_cast<float>(weight / sum));
    }
  }
  return result;
}

std::uint8_t to_byte(float value) {
  return static_cast<std::uint8_t>(std::clamp(std::lround(value), 0L, 255L));
}

// Lines of a source, from `begin` on.
struct Lines {
  std::int64_t begin = 0, end = 0;
};

// What these taps need; far less than all of a source that is much longer than it is wide.
Lines needed_by(const std::vector<Tap>& taps) {
  const Tap& last = taps.back();
  return {taps.front().first, last.first + static_cast<std::int64_t>(last.weights.size())};
}

// (H, W, 3) -> (rows, taps.size(), 3)
Image resize_width(const Image& image, Lines rows, const std::vector<Tap>& columns) {
  const auto width = static_cast<std::int64_t>(columns.size());
  const std::int64_t height = rows.end - rows.begin;
  Image result{height, width,
               std::vector<std::uint8_t>(static_cast<std::size_t>(height * width * kColours))};
  auto* out = result.pixels.data();
  for (std::int64_t y = rows.begin; y < rows.end; ++y) {
    const std::uint8_t* row = image.pixels.data() + y * image.width * kColours;
    for (const Tap& tap : columns) {
      for (std::int64_t c = 0; c < kColours; ++c) {
        const std::uint8_t* in = row + tap.first * kColours + c;
        float sum = 0;
        for (const float weight : tap.weights) {
          sum += weight * static_cast<float>(*in);
          in += kColours;
        }
        *out++ = to_byte(sum);
      }
    }
  }
  return result;
}

// (H, W, 3) -> (taps.size(), W, 3). first_row: the row of the source that image begins with.
Image resize_height(const Image& image, std::int64_t first_row, const std::vector<Tap>& rows) {
  const std::int64_t line = image.width * kColours;
  const auto height = static_cast<std::int64_t>(rows.size());
  Image result{height, image.width,
               std::vector<std::uint8_t>(static_cast<std::size_t>(height * line))};
  std::vector<float> sums(static_cast<std::size_t>(line));
  auto* out = result.pixels.data();
  for (const Tap& tap : rows) {
    std::ranges::fill(sums, 0.0F);
    const std::uint8_t* in = image.pixels.data() + (tap.first - first_row) * line;
    for (const float weight : tap.weights) {
      for (float& sum : sums) {
        sum += weight * static_cast<float>(*in++);
      }
    }
    out = std::ranges::transform(sums, out, to_byte).out;
  }
  return result;
}

}  // namespace

Image resize_and_crop(const Image& image, std::int64_t size) {
  const std::int64_t shorter = std::min(image.height, image.width);
  TRIREME_ASSERT(size > 0 && shorter > 0, "an image and its size are not empty");
  const std::int64_t height = size * image.height / shorter;
  const std::int64_t width = size * image.width / shorter;
  const std::int64_t top = (height - size) / 2;
  const std::int64_t left = (width - size) / 2;
  const std::vector<Tap> rows = taps(image.height, height, top, size);
  const Lines needed = needed_by(rows);
  return resize_height(resize_width(image, needed, taps(image.width, width, left, size)),
                       needed.begin, rows);
}

void write_planes(const Image& image, std::int64_t channels, std::span<std::byte> output) {
  const auto plane = static_cast<std::size_t>(image.height * image.width);
  TRIREME_ASSERT((channels == 1 || channels == 3) &&
                     output.size() == plane * static_cast<std::size_t>(channels),
                 "the output has one or three planes of the image's size");
  const std::uint8_t* in = image.pixels.data();
  for (std::size_t i = 0; i < plane; ++i, in += kColours) {
    if (channels == 1) {
      // In 16-bit fixed point, as PIL's convert("L"); the weights' sum is 2^16, so grey stays as it
      // is.
      output[i] =
          static_cast<std::byte>((in[0] * 19595 + in[1] * 38470 + in[2] * 7471 + 32768) >> 16);
      continue;
    }
    output[i] = static_cast<std::byte>(in[0]);
    output[plane + i] = static_cast<std::byte>(in[1]);
    output[2 * plane + i] = static_cast<std::byte>(in[2]);
  }
}

}  // namespace trireme
