// SPDX-License-Identifier: Apache-2.0
// Data sets that read files: they are made, or refused with DataError, and then every sample reads.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "data/datasets.hpp"
#include "fuzz/fuzz.hpp"

namespace trireme::fuzz {

inline void read_all(const DatasetKind& kind, const std::filesystem::path& path,
                     const std::vector<std::pair<std::string, OptionValue>>& changes = {}) {
  Options options = default_options(kind.options);
  for (const auto& [name, value] : changes) options.set(name, value);
  constexpr std::int64_t kMostSamples = 64;
  takes(ExitCode::kData, [&] {
    const auto dataset = kind.make(options, {.path = path.string()});
    std::vector<std::byte> input(dataset->spec().input_bytes());
    std::vector<std::byte> target(dataset->spec().target_bytes());
    require(dataset->size() > 0, "a data set has samples");
    const std::int64_t step = std::max<std::int64_t>(1, dataset->size() / kMostSamples);
    for (std::int64_t i = 0; i < dataset->size(); i += step) dataset->read(i, input, target);
    dataset->read(dataset->size() - 1, input, target);
  });
}

}  // namespace trireme::fuzz
