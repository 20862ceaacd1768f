// SPDX-License-Identifier: Apache-2.0
// A small checkpoint whose content is a function of its step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/archive.hpp"

namespace trireme::test {

struct SampleArray {
  ArrayInfo info;
  std::vector<std::byte> data;
};

// Sorted by name; each dtype, a scalar and an empty array among them.
std::vector<SampleArray> sample_arrays(std::int64_t step);
std::string sample_state(std::int64_t step);

// A model.h5 of these arrays, and commits one.
std::vector<std::byte> image_of(std::int64_t step, const std::vector<SampleArray>& arrays,
                                const std::string& state);
CommittedCheckpoint write_arrays(const std::filesystem::path& checkpoints, std::int64_t step,
                                 const std::vector<SampleArray>& arrays, const std::string& state);

// Commits sample_arrays(step) and sample_state(step).
std::filesystem::path write_sample(const std::filesystem::path& checkpoints, std::int64_t step);

// Expects that this checkpoint holds exactly the sample of `step`.
void expect_sample(const std::filesystem::path& directory, std::int64_t step);

// Gives model.h5, whatever it is, a manifest that matches it.
void vouch_for(const std::filesystem::path& directory, std::int64_t step);

// The message of the CheckpointError that reading this directory throws; fails the test where it
// throws none.
std::string reading_error(const std::filesystem::path& directory);

// Names in a directory, sorted.
std::vector<std::string> names_in(const std::filesystem::path& directory);

std::string file_text(const std::filesystem::path& path);
void set_file_text(const std::filesystem::path& path, const std::string& text);

}  // namespace trireme::test
