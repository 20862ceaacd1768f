// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include "support.hpp"
#include "trireme/error.hpp"

namespace trireme::test {
namespace {

using ::testing::ElementsAreArray;

std::vector<std::string> names(const Model& model) {
  std::vector<std::string> result;
  for (const auto& item : model.named_parameters()) result.push_back(item.key());
  return result;
}

TEST(Mlp, HasTheCountsAndNamesOfItsLayers) {
  const auto model =
      make_model("mlp", images(3, 32, 10), {{"hidden", std::vector<std::int64_t>{4096, 4096}}});
  EXPECT_EQ(num_trained(*model), 3072 * 4096 + 4096 + 4096 * 4096 + 4096 + 4096 * 10 + 10);
  EXPECT_THAT(names(*model),
              ElementsAreArray({"layers.0.weight", "layers.0.bias", "layers.1.weight",
                                "layers.1.bias", "layers.2.weight", "layers.2.bias"}));
  EXPECT_EQ(model->forward(torch::randn({2, 3, 32, 32})).sizes(), at::IntArrayRef({2, 10}));
}

TEST(Mlp, WithoutHiddenLayersIsLinearAndTakesRealTargets) {
  const DatasetSpec features{.input_shape = {5},
                             .input_dtype = DType::kF32,
                             .target_shape = {2},
                             .target_dtype = DType::kF32,
                             .num_classes = 0};
  const auto model = make_model("mlp", features, {{"hidden", std::vector<std::int64_t>{}}});
  const torch::Tensor x = torch::randn({3, 5});
  EXPECT_EQ(model->forward(x).sizes(), at::IntArrayRef({3, 2}));
  EXPECT_TRUE((model->forward(x) + model->forward(-x)).allclose(2 * model->forward(x * 0)));
}

TEST(ConvNet, TakesSmallImagesOfAnyKind) {
  const auto grey = make_model("convnet", images(1, 28, 10), {{"width", std::int64_t{4}}});
  EXPECT_EQ(grey->forward(torch::randn({2, 1, 28, 28})).sizes(), at::IntArrayRef({2, 10}));
  const std::int64_t convolutions = 9 * (4 + 4 * 8 + 8 * 16);
  EXPECT_EQ(num_trained(*grey), convolutions + 2 * (4 + 8 + 16) + 16 * 3 * 3 * 10 + 10);
  const auto color = make_model("convnet", images(3, 32, 100));
  EXPECT_EQ(color->forward(torch::randn({2, 3, 32, 32})).sizes(), at::IntArrayRef({2, 100}));
}

// The counts that torchvision documents for its weights.
TEST(ResNet, HasTorchvisionsParameterCounts) {
  const DatasetSpec data = images(3, 224, 1000);
  EXPECT_EQ(num_trained(*make_model("resnet18", data)), 11689512);
  EXPECT_EQ(num_trained(*make_model("resnet34", data)), 21797672);
  EXPECT_EQ(num_trained(*make_model("resnet50", data)), 25557032);
}

struct Family {
  const char* name;
  std::vector<int> blocks;  // [stage]
  int convolutions;         // of a block
};

// torchvision's state_dict keys, spelled out by its naming rule, in its order within a block.
std::vector<std::string> torchvision_names(const Family& family) {
  const auto add_norm = [](std::vector<std::string>& keys, const std::string& prefix) {
    for (const char* end : {".weight", ".bias"}) keys.push_back(prefix + end);
  };
  std::vector<std::string> keys{"conv1.weight"};
  add_norm(keys, "bn1");
  for (std::size_t stage = 0; stage < family.blocks.size(); ++stage) {
    for (int block = 0; block < family.blocks[stage]; ++block) {
      const std::string prefix =
          "layer" + std::to_string(stage + 1) + "." + std::to_string(block) + ".";
      for (int i = 1; i <= family.convolutions; ++i) {
        keys.push_back(prefix + "conv" + std::to_string(i) + ".weight");
        add_norm(keys, prefix + "bn" + std::to_string(i));
      }
      if (block == 0 && (stage > 0 || family.convolutions == 3)) {
        keys.push_back(prefix + "downsample.0.weight");
        add_norm(keys, prefix + "downsample.1");
      }
    }
  }
  add_norm(keys, "fc");
  return keys;
}

TEST(ResNet, HasTorchvisionsNames) {
  const DatasetSpec data = images(3, 224, 1000);
  for (const Family& family :
       {Family{"resnet18", {2, 2, 2, 2}, 2}, Family{"resnet34", {3, 4, 6, 3}, 2},
        Family{"resnet50", {3, 4, 6, 3}, 3}}) {
    const auto model = make_model(family.name, data);
    EXPECT_THAT(names(*model), ElementsAreArray(torchvision_names(family)));
    EXPECT_TRUE(model->named_buffers().contains("layer2.0.downsample.1.running_var"));
    EXPECT_TRUE(model->named_buffers().contains("bn1.num_batches_tracked"));
  }
}

TEST(ResNet, HasTorchvisionsShapesWhereStridesAndWidthsChange) {
  const auto model = make_model("resnet50", images(3, 224, 1000));
  const auto parameters = model->named_parameters();
  const auto shape = [&](const char* name) { return parameters[name].sizes().vec(); };
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(shape("conv1.weight"), (Shape{64, 3, 7, 7}));
  EXPECT_EQ(shape("layer1.0.conv1.weight"), (Shape{64, 64, 1, 1}));
  EXPECT_EQ(shape("layer1.0.downsample.0.weight"), (Shape{256, 64, 1, 1}));
  EXPECT_EQ(shape("layer2.0.conv2.weight"), (Shape{128, 128, 3, 3}));
  EXPECT_EQ(shape("layer4.2.conv3.weight"), (Shape{2048, 512, 1, 1}));
  EXPECT_EQ(shape("fc.weight"), (Shape{1000, 2048}));
}

TEST(ResNet, BothStemsClassify) {
  const std::map<std::string, OptionValue> cifar{{"stem", std::string("cifar")}};
  const auto small = make_model("resnet18", images(3, 32, 10), cifar);
  EXPECT_EQ(num_trained(*small), 11173962);  // the usual count for CIFAR-10
  EXPECT_EQ(small->forward(torch::randn({2, 3, 32, 32})).sizes(), at::IntArrayRef({2, 10}));
  for (const char* name : {"resnet34", "resnet50"}) {
    const auto model = make_model(name, images(3, 64, 7));
    EXPECT_EQ(model->forward(torch::randn({2, 3, 64, 64})).sizes(), at::IntArrayRef({2, 7}));
  }
}

TEST(Gpt, HasTheCountAndNamesOfItsParts) {
  const auto model = make_model("gpt", tokens(128, 256));
  const std::int64_t width = 384;
  const std::int64_t block = 12 * width * width + 13 * width;
  EXPECT_EQ(num_trained(*model), 6 * block + (256 + 128) * width + 2 * width + 256 * width);
  const auto parameters = model->named_parameters();
  for (const char* name :
       {"token.weight", "position.weight", "blocks.5.ln1.weight", "blocks.5.ln2.bias",
        "blocks.0.qkv.weight", "blocks.0.proj.bias", "blocks.0.up.weight", "blocks.0.down.bias",
        "norm.weight", "head.weight"}) {
    EXPECT_TRUE(parameters.contains(name)) << name;
  }
  EXPECT_FALSE(parameters.contains("head.bias"));
}

TEST(Gpt, SeesNoTokenOfTheFuture) {
  const auto model = make_model(
      "gpt", tokens(8, 20),
      {{"layers", std::int64_t{2}}, {"width", std::int64_t{12}}, {"heads", std::int64_t{3}}});
  model->eval();
  const torch::Tensor ids = torch::arange(16).reshape({2, 8});
  torch::Tensor changed = ids.clone();
  changed[0][5] = 19;
  const torch::Tensor before = model->forward(ids), after = model->forward(changed);
  EXPECT_EQ(before.sizes(), at::IntArrayRef({16, 20}));
  EXPECT_TRUE(before.narrow(0, 0, 5).allclose(after.narrow(0, 0, 5)));
  EXPECT_FALSE(before.narrow(0, 5, 3).allclose(after.narrow(0, 5, 3)));
  EXPECT_TRUE(before.narrow(0, 8, 8).allclose(after.narrow(0, 8, 8)));
}

TEST(Models, DropOnlyInTraining) {
  const std::vector<std::int64_t> ids{3, 4};
  const ForwardContext context{.seed = 1, .step = 1, .sample_ids = ids};
  const std::map<std::string, OptionValue> half{{"dropout", 0.5}};
  const auto check = [&](const std::shared_ptr<Model>& model, const torch::Tensor& input,
                         int expected_layers) {
    int layers = 0;
    for (const auto& module : model->modules()) {
      auto* dropout = dynamic_cast<Dropout*>(module.get());
      if (dropout != nullptr) dropout->bind(&context, static_cast<std::uint64_t>(layers++));
    }
    EXPECT_EQ(layers, expected_layers);
    const torch::Tensor trained = model->forward(input);
    model->eval();
    EXPECT_FALSE(trained.allclose(model->forward(input)));
    EXPECT_TRUE(model->forward(input).equal(model->forward(input)));
  };
  check(make_model("mlp", images(1, 8, 10), half), torch::randn({2, 1, 8, 8}), 2);
  check(make_model("convnet", images(1, 8, 10), half), torch::randn({2, 1, 8, 8}), 1);
  check(make_model("gpt", tokens(8, 20), half), torch::arange(16).reshape({2, 8}), 13);
}

TEST(Models, RefuseADataSetThatTheyCannotTake) {
  EXPECT_THROW(make_model("mlp", tokens(8, 20)), ConfigError);
  EXPECT_THROW(make_model("convnet", tokens(8, 20)), ConfigError);
  EXPECT_THROW(make_model("convnet", images(3, 7, 10)), ConfigError);
  EXPECT_THROW(make_model("resnet18", tokens(8, 20)), ConfigError);
  EXPECT_THROW(make_model("cifar_net", images(3, 26, 10)), ConfigError);
  EXPECT_THROW(make_model("gpt", images(3, 32, 10)), ConfigError);
  EXPECT_THROW(make_model("gpt", tokens(8, 20), {{"heads", std::int64_t{5}}}), ConfigError);
  DatasetSpec several = images(3, 32, 10);
  several.target_shape = {4};
  EXPECT_THROW(make_model("mlp", several), ConfigError);
}

}  // namespace
}  // namespace trireme::test
