// SPDX-License-Identifier: Apache-2.0
// The data sets that come with Trireme. All of them check what they find when they are made, and
// throw an Error of ExitCode::kData that names the file, what was found, what was expected and what
// to do: DataError, or SharedError on all ranks of the node where one rank works for the others.
// Making one is collective over the context's node.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/dataset.hpp"
#include "trireme/options.hpp"

namespace trireme {

// As DatasetEntry of registry.hpp, which includes torch.
struct DatasetKind {
  std::string name;                 // data.name
  std::string help;                 // one sentence
  std::vector<OptionSpec> options;  // data.*
  std::function<std::shared_ptr<const Dataset>(const Options&, const DatasetContext&)> make;
};

// The binary version of CIFAR: one file is records of label bytes and 3 planes of 32x32 bytes.
DatasetKind cifar10();
DatasetKind cifar100();  // with its 100 fine labels
// MNIST, Fashion-MNIST and others in that format: images and labels in IDX files, plain or .gz.
// Plain files and those decoded from .gz are in memory once a node.
DatasetKind idx();
// path/TRAIN/CLASS/image and path/TEST/CLASS/image, JPEG or PNG. Classes are the sorted names of
// the folders in TRAIN.
DatasetKind image_folder();
// A file as bytes; a sample is `context` bytes as input and the same moved on by one as target.
// Samples do not overlap.
DatasetKind text();
// Noise around one random pattern a class: bytes for a shape of three sides (an image), else floats
// in [-1, 1]. For tests and measurements; a linear model learns it.
DatasetKind synthetic();

// All of them.
std::vector<DatasetKind> dataset_kinds();

}  // namespace trireme
