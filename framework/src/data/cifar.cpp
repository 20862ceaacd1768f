// SPDX-License-Identifier: Apache-2.0
// The binary version of CIFAR-10 and CIFAR-100, https://www.cs.toronto.edu/~kriz/cifar.html.
#include <algorithm>
#include <filesystem>
#include <utility>

#include "data/datasets.hpp"
#include "data/file_bytes.hpp"

namespace trireme {
namespace {

constexpr std::int64_t kSide = 32;
constexpr std::size_t kImageBytes = 3 * kSide * kSide;

struct Layout {
  std::string name;
  std::string folder;           // of the official archive
  std::size_t label_bytes = 1;  // before the image; the last one counts
  std::int64_t classes = 10;
  std::vector<std::string> train, test;  // file names
  std::int64_t train_records = 0;        // of each file in train, officially
  std::int64_t test_records = 0;
};

Layout layout10() {
  return {.name = "cifar10",
          .folder = "cifar-10-batches-bin",
          .label_bytes = 1,
          .classes = 10,
          .train = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                    "data_batch_5.bin"},
          .test = {"test_batch.bin"},
          .train_records = 10000,
          .test_records = 10000};
}

Layout layout100() {
  return {.name = "cifar100",
          .folder = "cifar-100-binary",
          .label_bytes = 2,
          .classes = 100,
          .train = {"train.bin"},
          .test = {"test.bin"},
          .train_records = 50000,
          .test_records = 10000};
}

class Cifar final : public Dataset {
 public:
  Cifar(Layout layout, const Options& options, const DatasetContext& context)
      : layout_(std::move(layout)), record_bytes_(layout_.label_bytes + kImageBytes) {
    spec_.input_shape = {3, kSide, kSide};
    spec_.num_classes = layout_.classes;
    const std::string hint = "scripts/get_data " + layout_.name + " fetches the data set";
    if (context.path.empty()) {
      throw DataError("data.path is not set; expected the folder of " + layout_.name +
                      "'s binary files, such as data/" + layout_.folder + "; " + hint);
    }
    namespace fs = std::filesystem;
    fs::path folder = context.path;
    std::error_code ignored;  // where it cannot be looked at, opening the files says why
    if (fs::is_directory(folder / layout_.folder, ignored)) {
      folder /= layout_.folder;
    }
    const bool test = context.split == Split::kTest;
    const bool official = !options.get<bool>("any_length");
    for (const std::string& name : test ? layout_.test : layout_.train) {
      Part part{(folder / name).string(), map_file((folder / name).string(), hint), size_};
      check_length(part, official ? (test ? layout_.test_records : layout_.train_records) : 0,
                   hint);
      check_labels(part);
      size_ += records_of(part);
      parts_.push_back(std::move(part));
    }
  }

  const DatasetSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return size_; }

  void read(std::int64_t index, std::span<std::byte> input,
            std::span<std::byte> target) const override {
    const Part& part = part_of(index);
    const std::size_t at = static_cast<std::size_t>(index - part.first) * record_bytes_;
    const auto record = part.content.bytes().subspan(at, record_bytes_);
    const std::int64_t label = std::to_integer<std::int64_t>(record[layout_.label_bytes - 1]);
    std::ranges::copy(record.subspan(layout_.label_bytes), input.begin());
    std::ranges::copy(std::as_bytes(std::span(&label, 1)), target.begin());
  }

  std::string describe(std::int64_t index) const override {
    const Part& part = part_of(index);
    return part.path + " record " + std::to_string(index - part.first);
  }

 private:
  struct Part {
    std::string path;
    FileBytes content;
    std::int64_t first;  // index of its first record
  };

  std::int64_t records_of(const Part& part) const {
    return static_cast<std::int64_t>(part.content.size() / record_bytes_);
  }

  const Part& part_of(std::int64_t index) const {
    TRIREME_ASSERT(index >= 0 && index < size_, "the sample is in the data set");
    return *std::prev(std::ranges::upper_bound(parts_, index, {}, &Part::first));
  }

  // expected: records, or 0 for any number of them.
  void check_length(const Part& part, std::int64_t expected, const std::string& hint) const {
    const std::size_t found = part.content.size();
    const std::size_t wanted = static_cast<std::size_t>(expected) * record_bytes_;
    if (expected > 0 ? found == wanted : found > 0 && found % record_bytes_ == 0) {
      return;
    }
    throw DataError(part.path + ": the file has " + std::to_string(found) + " bytes, expected " +
                    (expected > 0 ? std::to_string(wanted) + " (" + std::to_string(expected) +
                                        " records of " + std::to_string(record_bytes_) + ")"
                                  : "one or more records of " + std::to_string(record_bytes_)) +
                    (found == 0 || found < wanted || found % record_bytes_ != 0
                         ? "; it is truncated or no " + layout_.name + " file; " + hint
                         : "; set data.any_length: true if this is meant"));
  }

  void check_labels(const Part& part) const {
    for (std::int64_t record = 0; record < records_of(part); ++record) {
      const std::size_t at =
          static_cast<std::size_t>(record) * record_bytes_ + layout_.label_bytes - 1;
      if (part.content[at] >= layout_.classes) {
        throw DataError(part.path + " record " + std::to_string(record) + " (offset " +
                        std::to_string(at) + "): the label is " + std::to_string(part.content[at]) +
                        ", expected 0 to " + std::to_string(layout_.classes - 1));
      }
    }
  }

  Layout layout_;
  std::size_t record_bytes_;
  DatasetSpec spec_;
  std::int64_t size_ = 0;
  std::vector<Part> parts_;  // ascending by first
};

DatasetKind kind_of(const Layout& layout, std::string help) {
  return {layout.name,
          std::move(help),
          {{"any_length", false,
            "Accept files with another number of records than the official ones."}},
          [layout](const Options& options, const DatasetContext& context) {
            return std::make_shared<const Cifar>(layout, options, context);
          }};
}

}  // namespace

DatasetKind cifar10() {
  return kind_of(layout10(), "CIFAR-10, the folder cifar-10-batches-bin of its binary version.");
}

DatasetKind cifar100() {
  return kind_of(layout100(),
                 "CIFAR-100 with fine labels, the folder cifar-100-binary of its binary version.");
}

}  // namespace trireme
