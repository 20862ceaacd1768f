// SPDX-License-Identifier: Apache-2.0
#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <array>

#include "data/image.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

constexpr std::int64_t kMaxPixels = std::int64_t{1} << 27;

enum class Format { kJpeg, kPng };

const std::uint8_t* bytes_of(std::span<const std::byte> file) {
  return reinterpret_cast<const std::uint8_t*>(file.data());
}

Format format_of(std::span<const std::byte> file, const std::string& path) {
  constexpr std::array<std::uint8_t, 3> kJpegStart = {0xFF, 0xD8, 0xFF};
  constexpr std::array<std::uint8_t, 8> kPngStart = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  const auto starts_with = [&](auto& start) {
    return file.size() >= start.size() && std::equal(start.begin(), start.end(), bytes_of(file));
  };
  if (file.empty()) {
    throw DataError(path + ": the file is empty, expected a JPEG or PNG image");
  }
  if (starts_with(kJpegStart)) {
    return Format::kJpeg;
  }
  if (starts_with(kPngStart)) {
    return Format::kPng;
  }
  throw DataError(path + ": this is neither a JPEG nor a PNG image");
}

void check_pixels(std::int64_t height, std::int64_t width, const std::string& path) {
  if (height <= 0 || width <= 0 || height > kMaxPixels / width) {
    throw DataError(path + ": the image is " + std::to_string(width) + "x" +
                    std::to_string(height) + ", expected at most " + std::to_string(kMaxPixels) +
                    " pixels");
  }
}

class JpegDecoder {
 public:
  JpegDecoder(std::span<const std::byte> file, const std::string& path)
      : file_(file), path_(path), handle_(::tjInitDecompress()) {
    if (handle_ == nullptr) {
      fail();
    }
  }
  ~JpegDecoder() { ::tjDestroy(handle_); }  // frees memory alone: nothing to report
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  ImageSize size() {
    int width = 0;
    int height = 0;
    int subsampling = 0;
    int colours = 0;
    if (::tjDecompressHeader3(handle_, bytes_of(file_), file_.size(), &width, &height, &subsampling,
                              &colours) != 0) {
      fail();
    }
    check_pixels(height, width, path_);
    return {height, width};
  }

  Image decode() {
    const auto [height, width] = size();
    Image image{height, width,
                std::vector<std::uint8_t>(static_cast<std::size_t>(height * width * 3))};
    // Warnings make it fail as errors do: they mean that pixels were made up.
    if (::tjDecompress2(handle_, bytes_of(file_), file_.size(), image.pixels.data(),
                        static_cast<int>(width), 0, static_cast<int>(height), TJPF_RGB,
                        TJFLAG_ACCURATEDCT) != 0) {
      fail();
    }
    return image;
  }

 private:
  [[noreturn]] void fail() {
    throw DataError(path_ + ": cannot decode this JPEG image: " + ::tjGetErrorStr2(handle_));
  }
  std::span<const std::byte> file_;
  const std::string& path_;
  tjhandle handle_;
};

class PngDecoder {
 public:
  PngDecoder(std::span<const std::byte> file, const std::string& path)
      : path_(path), file_bytes_(static_cast<std::int64_t>(file.size())) {
    image_.version = PNG_IMAGE_VERSION;
    if (::png_image_begin_read_from_memory(&image_, file.data(), file.size()) == 0) {
      fail();
    }
  }
  ~PngDecoder() { ::png_image_free(&image_); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  ImageSize size() const {
    const ImageSize size{image_.height, image_.width};
    check_pixels(size.height, size.width, path_);
    // Before memory is taken for them: a byte of deflate makes 1032 bytes at most, of 8 pixels
    // each.
    constexpr std::int64_t kMostPixelsPerByte = 8 * 1032;
    if (size.height * size.width / kMostPixelsPerByte > file_bytes_) {
      throw DataError(path_ + ": cannot decode this PNG image: it says that it is " +
                      std::to_string(size.width) + "x" + std::to_string(size.height) +
                      ", which its " + std::to_string(file_bytes_) + " bytes cannot hold");
    }
    return size;
  }

  Image decode() {
    const auto [height, width] = size();
    Image image{height, width,
                std::vector<std::uint8_t>(static_cast<std::size_t>(height * width * 3))};
    const png_color black{0, 0, 0};
    image_.format = PNG_FORMAT_RGB;
    if (::png_image_finish_read(&image_, &black, image.pixels.data(), 0, nullptr) == 0) {
      fail();
    }
    return image;
  }

 private:
  [[noreturn]] void fail() const {
    throw DataError(path_ + ": cannot decode this PNG image: " + image_.message);
  }
  const std::string& path_;
  std::int64_t file_bytes_;
  png_image image_{};
};

}  // namespace

Image decode_image(std::span<const std::byte> file, const std::string& path) {
  return format_of(file, path) == Format::kJpeg ? JpegDecoder(file, path).decode()
                                                : PngDecoder(file, path).decode();
}

ImageSize image_size(std::span<const std::byte> file, const std::string& path) {
  return format_of(file, path) == Format::kJpeg ? JpegDecoder(file, path).size()
                                                : PngDecoder(file, path).size();
}

}  // namespace trireme
