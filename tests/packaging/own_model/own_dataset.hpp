// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <fstream>

#include "trireme/dataset.hpp"
#include "trireme/error.hpp"

// A file of lines "x y target", real numbers. Every fifth line is in the test split.
class OwnDataset : public trireme::Dataset {
 public:
  OwnDataset(const std::string& path, trireme::Split split) : path_(path) {
    std::ifstream file(path);
    if (!file) throw trireme::DataError(path + ": cannot be opened; data.path has to name it");
    std::size_t line = 1;
    for (Row row; file >> row.input[0] >> row.input[1] >> row.target; ++line) {
      row.line = line;
      if ((line % 5 == 0) == (split == trireme::Split::kTest)) rows_.push_back(row);
    }
    if (!file.eof() || rows_.empty()) {
      throw trireme::DataError(path + ":" + std::to_string(line) +
                               ": expected a line of three numbers, and five lines at least");
    }
    spec_.input_shape = {2};
    spec_.input_dtype = spec_.target_dtype = trireme::DType::kF32;
  }

  const trireme::DatasetSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return static_cast<std::int64_t>(rows_.size()); }

  void read(std::int64_t index, std::span<std::byte> input,
            std::span<std::byte> target) const override {
    const Row& row = rows_[static_cast<std::size_t>(index)];
    std::memcpy(input.data(), row.input, input.size());
    std::memcpy(target.data(), &row.target, target.size());
  }

  std::string describe(std::int64_t index) const override {
    return path_ + " line " + std::to_string(rows_[static_cast<std::size_t>(index)].line);
  }

 private:
  struct Row {
    float input[2], target;
    std::size_t line;  // in the file, from 1
  };
  std::string path_;
  std::vector<Row> rows_;
  trireme::DatasetSpec spec_;
};
