// SPDX-License-Identifier: Apache-2.0
// Checkpoints open in Python by parameter name, and the example of the documentation works.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <numeric>

#include "checkpoint/archive.hpp"
#include "support/temporary_directory.hpp"
#include "unit/checkpoint/sample.hpp"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;

template <typename Values>
SampleArray array(ArrayInfo info, const Values& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {std::move(info), {bytes.begin(), bytes.end()}};
}

class H5py : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::string candidate : {"python3", "/usr/bin/python3"}) {
      if (std::system((candidate + " -c 'import h5py' 2>/dev/null").c_str()) == 0) {
        python_ = candidate;
        break;
      }
    }
    if (python_.empty()) GTEST_SKIP() << "no python3 with h5py here";
    fs::create_directories(root_.path() / "runs/quickstart");
    std::array<float, 6> weight{};
    std::iota(weight.begin(), weight.end(), 0.0F);
    const std::int64_t batches = 7;
    model_ =
        write_arrays(
            root_.path() / "runs/quickstart/checkpoints", 120,
            {array({"parameters/convs.0.weight", DType::kF32, {2, 3}}, weight),
             array({"buffers/bn1.num_batches_tracked", DType::kI64, {}}, std::span(&batches, 1)),
             array({"optimizer/exp_avg/convs.0.weight", DType::kF64, {0, 3}},
                   std::span<const double>())},
            R"({"step": 120, "name": "é"})")
            .directory /
        "model.h5";
  }

  int run(const std::string& arguments) const {
    return std::system(
        ("cd '" + root_.path().string() + "' && " + python_ + " " + arguments).c_str());
  }

  TemporaryDirectory root_;
  std::string python_;
  fs::path model_;
};

TEST_F(H5py, ReadsArraysByParameterName) {
  EXPECT_EQ(run("'" TRIREME_SOURCE_DIR "/tests/unit/checkpoint/read_with_h5py.py' '" +
                model_.string() + "'"),
            0);
}

TEST_F(H5py, RunsTheExampleOfTheDocumentation) {
  const std::string page = file_text(TRIREME_SOURCE_DIR "/framework/docs/CHECKPOINT.md");
  const std::string fence = "```python\n";
  const std::size_t begin = page.find(fence) + fence.size();
  ASSERT_GT(begin, fence.size());
  set_file_text(root_.path() / "example.py", page.substr(begin, page.find("```", begin) - begin));
  ASSERT_EQ(run("example.py > output"), 0);
  EXPECT_EQ(file_text(root_.path() / "output"), "['convs.0.weight']\n(2, 3) float32 120\n");
}

}  // namespace
}  // namespace trireme::test
