// SPDX-License-Identifier: Apache-2.0
// What a data set must offer. Derive, register (registry.hpp), and name it in `data.name`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/communicator.hpp"
#include "trireme/options.hpp"

namespace trireme {

// The same for every sample of a data set.
struct DatasetSpec {
  // Shape of one sample without the batch dimension: image {C, H, W}, tokens {T}, features {F}.
  std::vector<std::int64_t> input_shape;
  // kU8: an image, planes of bytes (C, H, W), which the loader augments, scales to [0, 1] and
  // normalises by data.mean and data.std. kI64: token ids. kF32: handed to the model as they are.
  DType input_dtype = DType::kU8;
  // {}: one number a sample (a class). {T}: one a token. The loss averages over all of them.
  std::vector<std::int64_t> target_shape;
  DType target_dtype =
      DType::kI64;  // kI64: class or token ids in [0, num_classes). kF32: real targets.
  std::int64_t num_classes = 0;  // 0 for real targets

  bool operator==(const DatasetSpec&) const = default;
  std::size_t input_bytes() const;          // of one sample
  std::size_t target_bytes() const;         // of one sample
  std::int64_t targets_per_sample() const;  // product of target_shape; 1 for {}
};

// Random access to samples. After construction it is immutable and read() is called from several
// threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const DatasetSpec& spec() const = 0;
  virtual std::int64_t size() const = 0;  // samples, > 0
  // Writes sample `index` (0 .. size()-1). The spans have exactly spec().input_bytes() and
  // target_bytes(). Throws DataError that names the file or sample.
  virtual void read(std::int64_t index, std::span<std::byte> input,
                    std::span<std::byte> target) const = 0;
  // For messages: where sample `index` comes from ("train/cat/0001.jpg", "data_batch_2.bin record
  // 17").
  virtual std::string describe(std::int64_t index) const = 0;
};

enum class Split { kTrain, kTest };

// What a data set's factory is given.
struct DatasetContext {
  std::string path = {};  // data.path, as written; may be empty
  Split split = Split::kTrain;
  std::uint64_t seed = 0;  // run.seed
  // The ranks of this node: a factory that has to decode a whole file lets one rank do it and
  // shares the bytes (share_on_node in comm/). Factories are called collectively over it.
  Communicator* node = nullptr;
  // Told what the user should see and is no error ("3 of 50000 images skipped"). Empty on all
  // ranks but one.
  std::function<void(const std::string&)> warn = {};
};

}  // namespace trireme
