// SPDX-License-Identifier: Apache-2.0
#include "unit/checkpoint/sample.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "checkpoint/manifest.hpp"
#include "trireme/error.hpp"

namespace trireme::test {
namespace fs = std::filesystem;

std::vector<SampleArray> sample_arrays(std::int64_t step) {
  std::vector<SampleArray> arrays = {
      {{"buffers/bn1.num_batches_tracked", DType::kI64, {}}, {}},
      {{"optimizer/exp_avg/layer1.0.conv1.weight", DType::kF64, {2, 3}}, {}},
      {{"parameters/empty", DType::kF32, {0, 4}}, {}},
      {{"parameters/layer1.0.conv1.weight", DType::kF32, {4, 3, 2}}, {}},
      {{"parameters/mask", DType::kU8, {5}}, {}},
  };
  std::size_t salt = static_cast<std::size_t>(step) * 131;
  for (SampleArray& array : arrays) {
    array.data.resize(array.info.size_bytes());
    for (std::byte& byte : array.data) byte = static_cast<std::byte>(salt++ * 37);
  }
  return arrays;
}

std::string sample_state(std::int64_t step) {
  return R"({"step": )" + std::to_string(step) + R"(, "text": "é"})";
}

CommittedCheckpoint write_arrays(const fs::path& checkpoints, std::int64_t step,
                                 const std::vector<SampleArray>& arrays, const std::string& state) {
  const std::vector<std::byte> image = image_of(step, arrays, state);
  return commit_checkpoint(checkpoints, step, image);
}

std::vector<std::byte> image_of(std::int64_t step, const std::vector<SampleArray>& arrays,
                                const std::string& state) {
  std::vector<ArrayInfo> infos;
  for (const SampleArray& array : arrays) infos.push_back(array.info);
  const ArchiveLayout layout(infos, state.size() + 100);
  std::vector<std::byte> image(layout.size_bytes());
  layout.begin(image);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    std::ranges::copy(arrays[i].data,
                      image.begin() + static_cast<std::ptrdiff_t>(layout.offset_of(i)));
  }
  layout.set_state(image, step, state);
  return image;
}

fs::path write_sample(const fs::path& checkpoints, std::int64_t step) {
  return write_arrays(checkpoints, step, sample_arrays(step), sample_state(step)).directory;
}

void expect_sample(const fs::path& directory, std::int64_t step) {
  const CheckpointReader reader(directory);
  EXPECT_EQ(reader.step(), step);
  EXPECT_EQ(reader.state(), sample_state(step));
  const std::vector<SampleArray> expected = sample_arrays(step);
  ASSERT_EQ(reader.arrays().size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(reader.arrays()[i], expected[i].info);
    std::vector<std::byte> data(expected[i].data.size());
    reader.read(reader.arrays()[i], data);
    EXPECT_EQ(data, expected[i].data) << expected[i].info.name;
  }
}

void vouch_for(const fs::path& directory, std::int64_t step) {
  const std::string model = file_text(directory / kModelFile);
  ContentHash hash;
  hash.update(std::as_bytes(std::span(model)));
  set_file_text(directory / kManifestFile,
                manifest_text({.step = step,
                               .model_bytes = static_cast<std::int64_t>(model.size()),
                               .model_hash = hash.hex()}));
}

std::string reading_error(const fs::path& directory) {
  try {
    const CheckpointReader reader(directory);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  ADD_FAILURE() << directory << " was read";
  return "";
}

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::string file_text(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  EXPECT_TRUE(stream) << path;
  return {std::istreambuf_iterator<char>(stream), {}};
}

void set_file_text(const fs::path& path, const std::string& text) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream << text;
  ASSERT_TRUE(stream.flush()) << path;
}

}  // namespace trireme::test
