// SPDX-License-Identifier: Apache-2.0
// What the tests of data/ share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/datasets.hpp"
#include "support/temporary_directory.hpp"
#include "trireme/dataset.hpp"

namespace trireme::test {

// A temporary folder to write a data set into.
class DataDir {
 public:
  std::string path() const { return directory_.path().string(); }
  // Writes path()/name, with the folders before it, and returns its path.
  std::string write(const std::string& name, const std::string& content) const {
    const std::filesystem::path file = directory_.path() / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << content;
    return file.string();
  }

 private:
  TemporaryDirectory directory_;
};

// The message of the E that `call` throws; a failed test where it throws none.
template <class E>
std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "no exception of the expected type";
  return "";
}

inline std::shared_ptr<const Dataset> make(
    const DatasetKind& kind, const DatasetContext& context,
    const std::vector<std::pair<std::string, OptionValue>>& changes = {}) {
  Options options = default_options(kind.options);
  for (const auto& [name, value] : changes) {
    options.set(name, value);
  }
  return kind.make(options, context);
}

// All elements of a read as T.
template <class T>
std::vector<T> as(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

struct Sample {
  std::vector<std::byte> input, target;

  std::int64_t label() const { return as<std::int64_t>(target).at(0); }
  int byte(std::size_t at) const { return std::to_integer<int>(input.at(at)); }
};

inline Sample read(const Dataset& dataset, std::int64_t index) {
  Sample sample;
  sample.input.resize(dataset.spec().input_bytes());
  sample.target.resize(dataset.spec().target_bytes());
  dataset.read(index, sample.input, sample.target);
  return sample;
}

// Images whose pixels and class tell their index. `on_read` may throw, or wait.
class CountingImages final : public Dataset {
 public:
  explicit CountingImages(std::int64_t size, std::vector<std::int64_t> shape = {1, 2, 2},
                          std::function<void(std::int64_t)> on_read = {})
      : size_(size), on_read_(std::move(on_read)) {
    spec_.input_shape = std::move(shape);
    spec_.num_classes = 1000;
  }
  const DatasetSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return size_; }
  void read(std::int64_t index, std::span<std::byte> input,
            std::span<std::byte> target) const override {
    if (on_read_) {
      on_read_(index);
    }
    for (std::size_t i = 0; i < input.size(); ++i) {
      input[i] = static_cast<std::byte>(static_cast<std::size_t>(index) * 7 + i * 3);
    }
    std::memcpy(target.data(), &index, sizeof(index));
  }
  std::string describe(std::int64_t index) const override {
    return "counting image " + std::to_string(index);
  }

 private:
  std::int64_t size_;
  std::function<void(std::int64_t)> on_read_;
  DatasetSpec spec_;
};

}  // namespace trireme::test
