// SPDX-License-Identifier: Apache-2.0
// Each model's forward pass against PyTorch's: the first of the golden losses (tests/golden). The
// trainings are compared by the golden tests.
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "support.hpp"
#include "support/golden_fill.hpp"

namespace trireme::test {
namespace {

using nlohmann::json;

TEST(GoldenFill, EqualsPythonsBitForBit) {
  EXPECT_EQ(golden_hash("image", 0), 0xb1178fc3f9b00095);
  EXPECT_EQ(golden_hash("image", 1), 0xc8cc83428f7f3baa);
  EXPECT_EQ(golden_hash("fc.weight", 12345), 0x3f3fb9c847ed9f5d);
  EXPECT_EQ(golden_value("a", 0), -0.25653807312918175);
  EXPECT_EQ(golden_byte("token", 1), 176);
  EXPECT_EQ(golden_label(3, 10), 7);
  torch::Tensor matrix = torch::empty({2, 3}, torch::kDouble);
  golden_fill("m.weight", matrix);
  EXPECT_EQ(matrix[1][2].item<double>(), -0x1.386be516e752ap-3);
  torch::Tensor scale = torch::empty({2}, torch::kDouble), bias = torch::empty({2}, torch::kDouble);
  golden_fill("n.weight", scale);
  golden_fill("n.bias", bias);
  EXPECT_EQ(scale[1].item<double>(), 0x1.138352f101176p+0);
  EXPECT_EQ(bias[0].item<double>(), 0x1.270610c63e2eap-4);
}

OptionValue option(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  if (value.is_array()) return value.get<std::vector<std::int64_t>>();
  return value.get<std::string>();
}

std::shared_ptr<Model> golden_model(const json& golden, const DatasetSpec& data) {
  std::map<std::string, OptionValue> options;
  for (const auto& [key, value] : golden["config"]["model"].items()) {
    if (key != "name" && key != "channels_last") options[key] = option(value);
  }
  const auto model = make_model(golden["config"]["model"]["name"], data, options);
  model->to(torch::kDouble);
  for (const auto& item : model->named_parameters()) golden_fill(item.key(), item.value());
  return model;
}

// The first `batch` samples of images, normalised in float32 as the loader does, and their labels.
std::pair<torch::Tensor, torch::Tensor> golden_images(const json& data, std::int64_t batch) {
  const std::int64_t side = data["input_shape"].back();
  torch::Tensor input = torch::empty({batch, 3, side, side});
  float* pixel = input.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < input.numel(); ++i) {
    const auto channel = static_cast<std::size_t>(i / (side * side) % 3);
    const float value = golden_byte("image", static_cast<std::uint64_t>(i));
    pixel[i] =
        (value / 255.0F - data["mean"][channel].get<float>()) / data["std"][channel].get<float>();
  }
  torch::Tensor target = torch::empty({batch}, torch::kLong);
  for (std::int64_t s = 0; s < batch; ++s) {
    target[s] = golden_label(static_cast<std::uint64_t>(s), data["num_classes"]);
  }
  return {input.to(torch::kDouble), target};
}

std::pair<torch::Tensor, torch::Tensor> golden_tokens(std::int64_t length, std::int64_t batch) {
  torch::Tensor text = torch::empty({batch * length + 1}, torch::kLong);
  for (std::int64_t i = 0; i < text.numel(); ++i) {
    text[i] = golden_byte("token", static_cast<std::uint64_t>(i));
  }
  return {text.narrow(0, 0, batch * length).reshape({batch, length}),
          text.narrow(0, 1, batch * length)};
}

class GoldenStart : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenStart, FirstLossEqualsPyTorchs) {
  std::ifstream file(std::string(TRIREME_SOURCE_DIR) + "/tests/golden/" + GetParam() + ".json");
  const json golden = json::parse(file);
  const json& data = golden["data"];
  const bool text = data["input_shape"].size() == 1;
  const std::int64_t side = data["input_shape"].back(),
                     batch = golden["config"]["train"]["global_batch"];
  const auto model = golden_model(
      golden, text ? tokens(side, data["num_classes"]) : images(3, side, data["num_classes"]));
  const auto [input, target] = text ? golden_tokens(side, batch) : golden_images(data, batch);
  const double smoothing = golden["config"].value(json::json_pointer("/loss/label_smoothing"), 0.0);
  const torch::Tensor loss = at::cross_entropy_loss(model->forward(input), target, {},
                                                    at::Reduction::Mean, -100, smoothing);
  EXPECT_NEAR(loss.item<double>(), golden["float64"][0].get<double>(), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenStart,
                         ::testing::Values("mlp", "resnet18", "gpt", "cifar_net"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace trireme::test
