// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "data/datasets.hpp"
#include "data/file_bytes.hpp"
#include "data/image.hpp"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr char kLayout[] = "expected TRAIN/CLASS/image and TEST/CLASS/image below data.path";

// The names in a folder, sorted by bytes so that all ranks agree; hidden ones (".DS_Store") left
// out.
std::vector<std::string> list(const fs::path& folder, bool folders) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code
        ignored;  // a broken link is no folder: reading it as an image says what is wrong
    if (name.starts_with('.')) {
      continue;
    }
    if (at->is_directory(ignored) == folders) {
      names.push_back(name);
    } else if (!folders) {
      throw DataError(at->path().string() + ": a folder among the images of a class; " + kLayout);
    }
  }
  if (error) {
    throw DataError(folder.string() + ": cannot list the folder: " + error.message() + "; " +
                    kLayout);
  }
  std::ranges::sort(names);
  return names;
}

class ImageFolder final : public Dataset {
 public:
  ImageFolder(const Options& options, const DatasetContext& context)
      : size_(options.get<std::int64_t>("size")),
        skip_(options.get<std::string>("on_corrupt") == "skip") {
    const auto channels = options.get<std::int64_t>("channels");
    if (channels != 1 && channels != 3) {
      throw DataError("data.channels is " + std::to_string(channels) +
                      ", expected 1 (grey) or 3 (red, green, blue)");
    }
    if (context.path.empty()) {
      throw DataError("data.path is not set; expected a folder of images");
    }
    const fs::path train = fs::path(context.path) / options.get<std::string>("train_dir");
    const fs::path test = fs::path(context.path) / options.get<std::string>("test_dir");
    classes_ = list(train, /*folders=*/true);
    if (classes_.empty()) {
      throw DataError(train.string() + ": there is no class folder; " + kLayout);
    }
    image_size_ = size_ > 0 ? ImageSize{size_, size_} : first_size(scan(train));
    spec_.input_shape = {channels, image_size_.height, image_size_.width};
    spec_.num_classes = static_cast<std::int64_t>(classes_.size());
    folder_ = context.split == Split::kTrain ? train : test;
    samples_ = scan(folder_);
    if (skip_) {
      leave_out_corrupt(context);
    }
    check_classes();
  }

  const DatasetSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return static_cast<std::int64_t>(samples_.size()); }

  void read(std::int64_t index, std::span<std::byte> input,
            std::span<std::byte> target) const override {
    const Sample& sample = samples_.at(static_cast<std::size_t>(index));
    write_planes(load(sample), spec_.input_shape[0], input);
    std::ranges::copy(std::as_bytes(std::span(&sample.label, 1)), target.begin());
  }

  std::string describe(std::int64_t index) const override {
    return samples_.at(static_cast<std::size_t>(index)).path;
  }

 private:
  struct Sample {
    std::string path;
    std::int64_t label = 0;
  };

  // The samples of a split, class by class. Its folders have to be classes of the training split.
  std::vector<Sample> scan(const fs::path& split) const {
    std::vector<Sample> samples;
    for (const std::string& name : list(split, /*folders=*/true)) {
      const auto found = std::ranges::lower_bound(classes_, name);
      if (found == classes_.end() || *found != name) {
        throw DataError((split / name).string() +
                        ": the training split has no class of this name; expected one of its " +
                        std::to_string(classes_.size()) + " class folders");
      }
      for (const std::string& file : list(split / name, /*folders=*/false)) {
        samples.push_back({(split / name / file).string(), found - classes_.begin()});
      }
    }
    return samples;
  }

  // Of the first training image; where corrupt ones are skipped, of the first whose header is
  // right.
  ImageSize first_size(const std::vector<Sample>& samples) const {
    for (const Sample& sample : samples) {
      try {
        return image_size(map_file(sample.path, "").bytes(), sample.path);
      } catch (const DataError&) {
        if (!skip_) {
          throw;
        }
      }
    }
    throw DataError("no image of the training split can be read; " + std::string(kLayout));
  }

  Image load(const Sample& sample) const {
    Image image = decode_image(map_file(sample.path, "").bytes(), sample.path);
    if (ImageSize{image.height, image.width} == image_size_) {
      return image;
    }
    if (size_ == 0) {
      throw DataError(sample.path + ": the image is " + std::to_string(image.width) + "x" +
                      std::to_string(image.height) + ", expected " +
                      std::to_string(image_size_.width) + "x" + std::to_string(image_size_.height) +
                      " as the first training image; set data.size to resize all images");
    }
    return resize_and_crop(image, size_);
  }

  // Why the sample cannot be used; nothing where it can.
  std::optional<std::string> defect(const Sample& sample) const {
    try {
      load(sample);
      return std::nullopt;
    } catch (const DataError& error) {
      return error.what();
    }
  }

  // Decodes every image once, shared out over the ranks of the node, so that all of them leave out
  // the same ones.
  void leave_out_corrupt(const DatasetContext& context) {
    const auto rank = static_cast<std::size_t>(context.node ? context.node->rank() : 0);
    const auto ranks = static_cast<std::size_t>(context.node ? context.node->size() : 1);
    std::string verdicts;  // one character a sample of this rank's
    for (std::size_t i = rank; i < samples_.size(); i += ranks) {
      verdicts += defect(samples_[i]) ? 'x' : '.';
    }
    const std::vector<std::string> all =
        context.node ? context.node->exchange(verdicts) : std::vector{verdicts};
    std::vector<Sample> good;
    std::string first_defect;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      if (all[i % ranks].at(i / ranks) == '.') {
        good.push_back(std::move(samples_[i]));
      } else if (first_defect.empty()) {
        first_defect =
            defect(samples_[i]).value_or(samples_[i].path + ": not readable a moment ago");
      }
    }
    if (good.size() < samples_.size() && context.warn) {
      context.warn(folder_.string() + ": " + std::to_string(samples_.size() - good.size()) +
                   " of " + std::to_string(samples_.size()) + " images skipped, the first is " +
                   first_defect);
    }
    samples_ = std::move(good);
  }

  void check_classes() const {
    std::vector<std::int64_t> counts(classes_.size());
    for (const Sample& sample : samples_) {
      ++counts[static_cast<std::size_t>(sample.label)];
    }
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] == 0) {
        throw DataError((folder_ / classes_[i]).string() +
                        ": the class has no image; add some, or remove its folder from all splits");
      }
    }
  }

  std::int64_t size_;  // 0: as they are
  bool skip_;
  std::vector<std::string> classes_;  // [label]
  ImageSize image_size_;
  fs::path folder_;  // of this split
  std::vector<Sample> samples_;
  DatasetSpec spec_;
};

}  // namespace

DatasetKind image_folder() {
  return {
      "image_folder",
      "JPEG and PNG images, one folder a class: PATH/train/CLASS/image and PATH/test/CLASS/image.",
      {{"size", std::int64_t{0},
        "Scale the shorter side to this many pixels and cut out the middle; 0: leave images as "
        "they are.",
        0, 4096},
       {"channels", std::int64_t{3}, "1: grey, 3: red, green and blue.", 1, 3},
       {"train_dir", std::string("train"), "Folder of the training split below data.path."},
       {"test_dir", std::string("test"), "Folder of the test split below data.path."},
       {"on_corrupt",
        std::string("error"),
        "What to do with images that cannot be decoded: error (when one is met), or skip (all "
        "images "
        "are decoded at the start to find them).",
        {},
        {},
        {"error", "skip"}}},
      [](const Options& options, const DatasetContext& context) {
        return std::make_shared<const ImageFolder>(options, context);
      }};
}

}  // namespace trireme
