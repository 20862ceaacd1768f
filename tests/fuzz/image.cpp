// SPDX-License-Identifier: Apache-2.0
// A PNG or JPEG file, decoded and resized as image_folder does. The first byte chooses the size.
#include "data/image.hpp"
#include "fuzz/fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  if (size < 1) return 0;
  const std::span<const std::byte> file = std::as_bytes(std::span(data + 1, size - 1));
  ImageSize told;
  fuzz::takes(ExitCode::kData, [&] { told = image_size(file, "image"); });
  fuzz::takes(ExitCode::kData, [&] {
    const Image image = decode_image(file, "image");
    fuzz::require(told == ImageSize{image.height, image.width}, "the header tells the size");
    const std::int64_t side = 1 + data[0] % 64;
    const Image small = resize_and_crop(image, side);
    fuzz::require(small.height == side && small.width == side, "the size that was asked for");
    std::vector<std::byte> planes(static_cast<std::size_t>(3 * side * side));
    write_planes(small, 3, planes);
    write_planes(small, 1, std::span(planes).first(static_cast<std::size_t>(side * side)));
  });
  return 0;
}
