// SPDX-License-Identifier: Apache-2.0
#include "data/datasets.hpp"

namespace trireme {

std::vector<DatasetKind> dataset_kinds() {
  return {cifar10(), cifar100(), idx(), image_folder(), text(), synthetic()};
}

}  // namespace trireme
