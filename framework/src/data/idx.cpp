// SPDX-License-Identifier: Apache-2.0
// IDX files: big-endian 32-bit words (magic number, then the length of each dimension), then bytes.
// http://yann.lecun.com/exdb/mnist/
#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "data/datasets.hpp"
#include "data/file_bytes.hpp"

namespace trireme {
namespace {

// The magic numbers: 08 is "unsigned byte", the last digit the number of dimensions.
constexpr std::uint32_t kImages = 0x00000803;
constexpr std::uint32_t kLabels = 0x00000801;

constexpr char kHint[] =
    "scripts/get_data mnist or scripts/get_data fashion_mnist puts the files in place";

std::string hex(std::uint32_t value) {
  std::string digits = "0x00000000";
  for (std::size_t i = digits.size(); i-- > 2; value >>= 4) {
    digits[i] = "0123456789abcdef"[value & 15U];
  }
  return digits;
}

struct Header {
  std::array<std::uint64_t, 3> dims = {1, 1, 1};  // records, rows, columns; 1 where there is none
  std::size_t bytes = 0;                          // before the data
  std::uint64_t file_bytes = 0;                   // of header and data
};

std::size_t header_bytes(std::uint32_t magic) { return 4 + 4 * (magic & 0xFFU); }

// bytes: header_bytes(magic) of them at least. Nothing in them is trusted.
Header parse_header(std::span<const std::byte> bytes, std::uint32_t magic,
                    const std::string& path) {
  const auto word = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (const std::byte b : bytes.subspan(at, 4)) {
      value = value << 8 | std::to_integer<std::uint32_t>(b);
    }
    return value;
  };
  if (word(0) != magic) {
    throw DataError(path + " offset 0: the magic number is " + hex(word(0)) + ", expected " +
                    hex(magic) + " (an IDX file of " + (magic == kImages ? "images" : "labels") +
                    "); " + kHint);
  }
  Header header;
  header.bytes = header_bytes(magic);
  header.file_bytes = 1;
  for (std::size_t i = 0; 4 + 4 * i < header.bytes; ++i) {
    header.dims[i] = word(4 + 4 * i);
    if (header.dims[i] == 0) {
      throw DataError(path + " offset " + std::to_string(4 + 4 * i) +
                      ": the header gives a dimension of 0, expected at least 1; " + kHint);
    }
    if (__builtin_mul_overflow(header.file_bytes, header.dims[i], &header.file_bytes)) {
      throw DataError(path + ": the dimensions in the header are impossibly large; " + kHint);
    }
  }
  if (__builtin_add_overflow(header.file_bytes, header.bytes, &header.file_bytes)) {
    throw DataError(path + ": the dimensions in the header are impossibly large; " + kHint);
  }
  return header;
}

struct IdxFile {
  std::string path;
  Header header;
  FileBytes content;

  std::span<const std::byte> record(std::int64_t index) const {
    const std::size_t size = header.dims[1] * header.dims[2];
    return content.bytes().subspan(header.bytes + static_cast<std::size_t>(index) * size, size);
  }
};

IdxFile open_gzip(const std::string& path, std::uint32_t magic, Communicator* node) {
  const auto expected = [&](std::span<const std::byte> header) {
    return parse_header(header, magic, path).file_bytes;
  };
  FileBytes content = gunzip_file({.path = path,
                                   .hint = kHint,
                                   .header_bytes = header_bytes(magic),
                                   .expected_bytes = expected,
                                   .node = node});
  const Header header = parse_header(content.bytes(), magic, path);
  return {path, header, std::move(content)};
}

IdxFile open_plain(const std::string& path, std::uint32_t magic) {
  FileBytes content = map_file(path, kHint);
  if (content.size() < header_bytes(magic)) {
    throw DataError(path + ": the file has " + std::to_string(content.size()) +
                    " bytes, less than its header of " + std::to_string(header_bytes(magic)) +
                    "; " + kHint);
  }
  const Header header = parse_header(content.bytes(), magic, path);
  if (content.size() != header.file_bytes) {
    throw DataError(path + ": the file has " + std::to_string(content.size()) +
                    " bytes, expected " + std::to_string(header.file_bytes) + " by its header; " +
                    kHint);
  }
  return {path, header, std::move(content)};
}

// stem: "train-images"; suffix: "idx3-ubyte".
IdxFile open_idx(const DatasetContext& context, const std::string& stem, const std::string& suffix,
                 std::uint32_t magic) {
  namespace fs = std::filesystem;
  const fs::path base = fs::path(context.path) / stem;
  for (const char* separator : {"-", "."}) {
    for (const char* ending : {"", ".gz"}) {
      const std::string path = base.string() + separator + suffix + ending;
      std::error_code ignored;  // where it cannot be looked at, it is not there for us
      if (fs::exists(path, ignored)) {
        return *ending == '\0' ? open_plain(path, magic) : open_gzip(path, magic, context.node);
      }
    }
  }
  throw DataError(base.string() + "-" + suffix +
                  ": no such file, nor with the ending .gz, nor with '." + suffix +
                  "'; set data.path to the folder that holds it; " + kHint);
}

class Idx final : public Dataset {
 public:
  Idx(const Options& options, const DatasetContext& context)
      : images_(open_idx(context, stem(context, "images"), "idx3-ubyte", kImages)),
        labels_(open_idx(context, stem(context, "labels"), "idx1-ubyte", kLabels)) {
    const auto [count, height, width] = images_.header.dims;
    if (labels_.header.dims[0] != count) {
      throw DataError(labels_.path + ": " + std::to_string(labels_.header.dims[0]) +
                      " labels, but " + images_.path + " has " + std::to_string(count) +
                      " images; expected as many of each; " + kHint);
    }
    spec_.input_shape = {1, static_cast<std::int64_t>(height), static_cast<std::int64_t>(width)};
    spec_.num_classes = options.get<std::int64_t>("classes");
    for (std::int64_t i = 0; i < size(); ++i) {
      if (label(i) >= spec_.num_classes) {
        throw DataError(labels_.path + " record " + std::to_string(i) + ": the label is " +
                        std::to_string(label(i)) + ", expected 0 to " +
                        std::to_string(spec_.num_classes - 1) + " (data.classes)");
      }
    }
  }

  const DatasetSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return static_cast<std::int64_t>(images_.header.dims[0]); }

  void read(std::int64_t index, std::span<std::byte> input,
            std::span<std::byte> target) const override {
    const std::int64_t id = label(index);
    std::ranges::copy(images_.record(index), input.begin());
    std::ranges::copy(std::as_bytes(std::span(&id, 1)), target.begin());
  }

  std::string describe(std::int64_t index) const override {
    return images_.path + " record " + std::to_string(index);
  }

 private:
  static std::string stem(const DatasetContext& context, const std::string& what) {
    return (context.split == Split::kTrain ? "train-" : "t10k-") + what;
  }
  std::int64_t label(std::int64_t index) const {
    return std::to_integer<std::int64_t>(labels_.record(index)[0]);
  }

  IdxFile images_, labels_;
  DatasetSpec spec_;
};

}  // namespace

DatasetKind idx() {
  return {"idx",
          "MNIST, Fashion-MNIST and others in IDX files, plain or .gz.",
          {{"classes", std::int64_t{10}, "How many classes the labels have.", 1, 256}},
          [](const Options& options, const DatasetContext& context) {
            return std::make_shared<const Idx>(options, context);
          }};
}

}  // namespace trireme
