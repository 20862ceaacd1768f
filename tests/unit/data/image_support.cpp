// SPDX-License-Identifier: Apache-2.0
#include "image_support.hpp"

#include <png.h>
#include <turbojpeg.h>

#include <stdexcept>

namespace trireme::test {
namespace {

std::string encode_png_as(std::uint32_t format, std::int64_t height, std::int64_t width,
                          const std::vector<std::uint8_t>& pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.format = format;
  image.height = static_cast<png_uint_32>(height);
  image.width = static_cast<png_uint_32>(width);
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string content(size, '\0');
  if (::png_image_write_to_memory(&image, content.data(), &size, 0, pixels.data(), 0, nullptr) ==
      0) {
    throw std::runtime_error(image.message);
  }
  content.resize(size);
  return content;
}

}  // namespace

Image ramp_image(std::int64_t height, std::int64_t width) {
  Image image{height, width, {}};
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      image.pixels.push_back(static_cast<std::uint8_t>(20 + 3 * x));
      image.pixels.push_back(static_cast<std::uint8_t>(40 + 4 * y));
      image.pixels.push_back(static_cast<std::uint8_t>(30 + x + y));
    }
  }
  return image;
}

std::string encode_png(const Image& image) {
  return encode_png_as(PNG_FORMAT_RGB, image.height, image.width, image.pixels);
}

std::string encode_grey_png(std::int64_t height, std::int64_t width,
                            const std::vector<std::uint8_t>& greys) {
  return encode_png_as(PNG_FORMAT_GRAY, height, width, greys);
}

std::string encode_jpeg(const Image& image) {
  const tjhandle handle = ::tjInitCompress();
  unsigned char* data = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): TurboJPEG's type
  const int failed = ::tjCompress2(handle, image.pixels.data(), static_cast<int>(image.width), 0,
                                   static_cast<int>(image.height), TJPF_RGB, &data, &size,
                                   TJSAMP_444, 95, TJFLAG_ACCURATEDCT);
  std::string content;
  if (failed == 0) {
    content.assign(reinterpret_cast<const char*>(data), size);
  }
  ::tjFree(data);
  ::tjDestroy(handle);
  if (failed != 0) {
    throw std::runtime_error("cannot encode a JPEG image");
  }
  return content;
}

}  // namespace trireme::test
