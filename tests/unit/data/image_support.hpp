// SPDX-License-Identifier: Apache-2.0
// Encoded images to decode, made by the libraries themselves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/image.hpp"

namespace trireme::test {

// Smooth, so that JPEG hardly changes it; no two rows or columns are the same.
Image ramp_image(std::int64_t height, std::int64_t width);

std::string encode_png(const Image& image);
std::string encode_grey_png(std::int64_t height, std::int64_t width,
                            const std::vector<std::uint8_t>& greys);
std::string encode_jpeg(const Image& image);

}  // namespace trireme::test
