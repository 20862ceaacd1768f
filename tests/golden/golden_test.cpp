// SPDX-License-Identifier: Apache-2.0
// Whole trainings against PyTorch's losses (make_golden.py): from equal weights, on equal samples
// in equal order.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/golden_fill.hpp"
#include "support/training.hpp"

namespace trireme::test {
namespace {

using nlohmann::json;

// The samples that make_golden.py describes.
class GoldenData : public Dataset {
 public:
  explicit GoldenData(const json& data) : size_(data["num_samples"]) {
    spec_.input_shape = data["input_shape"].get<std::vector<std::int64_t>>();
    spec_.num_classes = data["num_classes"];
    if (spec_.input_shape.size() > 1) return;
    spec_.input_dtype = DType::kI64;
    spec_.target_shape = spec_.input_shape;
  }
  const DatasetSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return size_; }
  std::string describe(std::int64_t index) const override {
    return "golden sample " + std::to_string(index);
  }

  void read(std::int64_t index, std::span<std::byte> input,
            std::span<std::byte> target) const override {
    const auto sample = static_cast<std::uint64_t>(index);
    if (spec_.input_dtype == DType::kU8) {
      for (std::size_t i = 0; i < input.size(); ++i) {
        input[i] = static_cast<std::byte>(golden_byte("image", sample * input.size() + i));
      }
      const std::int64_t label = golden_label(sample, spec_.num_classes);
      std::memcpy(target.data(), &label, sizeof label);
      return;
    }
    const auto length = static_cast<std::uint64_t>(spec_.input_shape[0]);
    for (std::uint64_t t = 0; t < length; ++t) {
      const std::int64_t here = golden_byte("token", sample * length + t);
      const std::int64_t next = golden_byte("token", sample * length + t + 1);
      std::memcpy(input.data() + t * sizeof here, &here, sizeof here);
      std::memcpy(target.data() + t * sizeof next, &next, sizeof next);
    }
  }

 private:
  DatasetSpec spec_;
  std::int64_t size_;
};

json read_golden(const std::string& name) {
  std::ifstream file(std::string(TRIREME_SOURCE_DIR) + "/tests/golden/" + name + ".json");
  return json::parse(file);
}

std::vector<double> losses(const json& golden, const std::string& precision, int ranks,
                           std::int64_t micro_batch) {
  Registry registry = all_parts();
  registry.add(DatasetEntry{
      "golden", "Samples of one formula.", {}, [&](const Options&, const DatasetContext&) {
        return std::make_shared<GoldenData>(golden["data"]);
      }});
  json config = golden["config"];
  config["data"] = {{"name", "golden"}, {"shuffle", false}};
  for (const char* key : {"mean", "std"}) {
    if (golden["data"].contains(key)) config["data"][key] = golden["data"][key];
  }
  config["train"]["precision"] = precision;
  config["train"]["micro_batch"] = micro_batch;
  const auto fill = [](Session& session, Communicator&) {
    for (const auto* tensors : {&session.replica().trained, &session.replica().frozen}) {
      for (const NamedTensor& parameter : *tensors) golden_fill(parameter.name, parameter.tensor);
    }
  };
  return train(config_of(config.dump(1), registry), {.ranks = ranks, .before_run = fill}, registry)
      .losses;
}

class Golden : public ::testing::TestWithParam<const char*> {};

TEST_P(Golden, TwentyLossesEqualPyTorchsInFloat64) {
  const json golden = read_golden(GetParam());
  const auto expected = golden["float64"].get<std::vector<double>>();
  ASSERT_EQ(expected.size(), 20u);
  EXPECT_LE(largest_difference(losses(golden, "fp64", 1, 0), expected), 1e-10);
}

TEST_P(Golden, FirstThreeLossesEqualPyTorchsInFloat32) {
  const json golden = read_golden(GetParam());
  const auto expected = golden["float32"].get<std::vector<double>>();
  ASSERT_EQ(expected.size(), 3u);
  auto ours = losses(golden, "fp32", 1, 0);
  ours.resize(3);
  EXPECT_LE(largest_difference(ours, expected), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Trainings, Golden,
                         ::testing::Values("mlp", "resnet18", "gpt", "cifar_net"),
                         [](const auto& instance) { return std::string(instance.param); });

// Networks without BatchNorm: ranks and micro-batches change nothing, so PyTorch's one-process
// losses hold for them, too.
class GoldenRanks : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenRanks, ThreeRanksWithAccumulationEqualPyTorchsOneProcess) {
  const json golden = read_golden(GetParam());
  const auto expected = golden["float64"].get<std::vector<double>>();
  EXPECT_LE(largest_difference(losses(golden, "fp64", 3, 2), expected), 1e-10);
}

INSTANTIATE_TEST_SUITE_P(Trainings, GoldenRanks, ::testing::Values("mlp", "gpt"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace trireme::test
