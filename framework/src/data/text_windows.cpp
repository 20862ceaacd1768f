// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "data/datasets.hpp"
#include "data/file_bytes.hpp"

namespace trireme {
namespace {

void write_tokens(std::span<const std::byte> bytes, std::span<std::byte> out) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::int64_t token = std::to_integer<std::int64_t>(bytes[i]);
    std::memcpy(out.data() + i * sizeof(token), &token, sizeof(token));
  }
}

class TextWindows final : public Dataset {
 public:
  TextWindows(const Options& options, const DatasetContext& context)
      : path_(context.path),
        context_(static_cast<std::size_t>(options.get<std::int64_t>("context"))),
        content_(open(context)) {
    const auto length = static_cast<double>(content_.size());
    const auto split =
        static_cast<std::size_t>(std::floor(length * (1.0 - options.get<double>("test_fraction"))));
    const bool test = context.split == Split::kTest;
    begin_ = test ? split : 0;
    const std::size_t bytes = (test ? content_.size() : split) - begin_;
    size_ = static_cast<std::int64_t>(bytes / (context_ + 1));
    if (size_ == 0) {
      throw DataError(path_ + ": the " + (test ? "test" : "training") + " part has " +
                      std::to_string(bytes) + " of the file's " + std::to_string(content_.size()) +
                      " bytes, expected at least one sample of " + std::to_string(context_ + 1) +
                      " (data.context + 1); use a longer file, or change data.context or "
                      "data.test_fraction");
    }
    spec_.input_shape = {static_cast<std::int64_t>(context_)};
    spec_.input_dtype = DType::kI64;
    spec_.target_shape = spec_.input_shape;
    spec_.num_classes = 256;
  }

  const DatasetSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return size_; }

  void read(std::int64_t index, std::span<std::byte> input,
            std::span<std::byte> target) const override {
    TRIREME_ASSERT(index >= 0 && index < size_, "the sample is in the data set");
    write_tokens(content_.bytes().subspan(offset(index), context_), input);
    write_tokens(content_.bytes().subspan(offset(index) + 1, context_), target);
  }

  std::string describe(std::int64_t index) const override {
    return path_ + " offset " + std::to_string(offset(index));
  }

 private:
  static FileBytes open(const DatasetContext& context) {
    if (context.path.empty()) {
      throw DataError("data.path is not set; expected a text file");
    }
    return map_file(context.path,
                    "set data.path to a text file; `scripts/get_data tinyshakespeare` fetches one");
  }
  std::size_t offset(std::int64_t index) const {
    return begin_ + static_cast<std::size_t>(index) * (context_ + 1);
  }

  std::string path_;
  std::size_t context_;  // tokens of a sample
  FileBytes content_;
  std::size_t begin_ = 0;  // offset of this split
  std::int64_t size_ = 0;
  DatasetSpec spec_;
};

}  // namespace

DatasetKind text() {
  return {"text",
          "A file as bytes: each byte is a token of 256, and the next one is to be predicted.",
          {{"context", std::int64_t{128}, "Tokens of a sample.", 1, 1 << 20},
           {"test_fraction", 0.1, "The last part of the file, which is kept for the test.", 0, 1}},
          [](const Options& options, const DatasetContext& context) {
            return std::make_shared<const TextWindows>(options, context);
          }};
}

}  // namespace trireme
