// SPDX-License-Identifier: Apache-2.0
// JPEG and PNG files to bytes, and their resizing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trireme {

// RGB, rows of pixels of 3 bytes: (H, W, 3).
struct Image {
  std::int64_t height = 0, width = 0;  // pixels
  std::vector<std::uint8_t> pixels;
};

struct ImageSize {
  std::int64_t height = 0, width = 0;
  bool operator==(const ImageSize&) const = default;
};

// Decodes a whole JPEG or PNG file; which of the two its first bytes tell. Grey becomes RGB,
// transparent is laid on black; PNG's 16 bits become 8. Nothing in `file` is trusted, and images
// above 2^27 pixels are refused. DataError that starts with `path` where it is neither, is damaged
// (also where the decoder could go on: a truncated JPEG would be grey at its end) or is too large.
Image decode_image(std::span<const std::byte> file, const std::string& path);

// The size alone, from the header. DataError as above.
ImageSize image_size(std::span<const std::byte> file, const std::string& path);

// Scales the shorter side to `size` and cuts out the middle: size x size. Bilinear with the filter
// widened when it makes smaller (antialiased), as torchvision's Resize and CenterCrop do on PIL
// images, to one step of rounding.
Image resize_and_crop(const Image& image, std::int64_t size);

// (3, H, W) planes for 3 channels; one plane of luma (ITU-R 601) for 1.
void write_planes(const Image& image, std::int64_t channels, std::span<std::byte> output);

}  // namespace trireme
