// SPDX-License-Identifier: Apache-2.0
// Residual networks (He et al. 2016). Names, shapes and initialisation equal torchvision's
// resnet18, resnet34 and resnet50 (its "v1.5": in a bottleneck the 3x3 convolution has the stride),
// so that weights can be exchanged.
#include <torch/nn/init.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <array>

#include "entries.hpp"

namespace trireme {
namespace {

namespace nn = torch::nn;

nn::Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
  nn::Conv2d layer(
      nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
  nn::init::kaiming_normal_(layer->weight, 0, torch::kFanOut, torch::kReLU);
  return layer;
}

enum class BlockKind { kBasic, kBottleneck };

struct BlockShape {
  BlockKind kind = BlockKind::kBasic;
  std::int64_t in = 0, width = 0, out = 0, stride = 1;
};

// Two 3x3 convolutions, or 1x1, 3x3, 1x1, and a shortcut around them.
class Block final : public nn::Module {
 public:
  explicit Block(const BlockShape& s) {
    if (s.kind == BlockKind::kBasic) {
      add(conv(s.in, s.width, 3, s.stride), s.width);
      add(conv(s.width, s.out, 3, 1), s.out);
    } else {
      add(conv(s.in, s.width, 1, 1), s.width);
      add(conv(s.width, s.width, 3, s.stride), s.width);
      add(conv(s.width, s.out, 1, 1), s.out);
    }
    if (s.stride != 1 || s.in != s.out) {
      shortcut_conv_ = conv(s.in, s.out, 1, s.stride);
      shortcut_norm_ = std::make_shared<BatchNorm>(s.out);
      register_module("downsample", nn::ModuleList(shortcut_conv_, shortcut_norm_));
    }
  }

  torch::Tensor forward(const torch::Tensor& input) {
    torch::Tensor x = input;
    for (std::size_t i = 0; i < convs_.size(); ++i) {
      x = norms_[i]->forward(convs_[i]->forward(x));
      if (i + 1 < convs_.size()) x = x.relu_();
    }
    const torch::Tensor shortcut =
        shortcut_conv_ ? shortcut_norm_->forward(shortcut_conv_->forward(input)) : input;
    return x.add_(shortcut).relu_();
  }

 private:
  void add(const nn::Conv2d& layer, std::int64_t channels) {
    const std::string number = std::to_string(convs_.size() + 1);
    convs_.push_back(register_module("conv" + number, layer));
    norms_.push_back(register_module("bn" + number, std::make_shared<BatchNorm>(channels)));
  }

  std::vector<nn::Conv2d> convs_;
  std::vector<std::shared_ptr<BatchNorm>> norms_;
  nn::Conv2d shortcut_conv_{nullptr};
  std::shared_ptr<BatchNorm> shortcut_norm_;
};

struct ResNetShape {
  const char* name = "";
  BlockKind kind = BlockKind::kBasic;
  std::array<int, 4> blocks{};  // [stage]
};

class ResNet final : public Model {
 public:
  ResNet(const ResNetShape& shape, bool cifar_stem, const DatasetSpec& data)
      : cifar_stem_(cifar_stem) {
    const std::int64_t in = image_channels(data, shape.name, /*smallest=*/8);
    std::int64_t channels = 64;
    conv1_ =
        register_module("conv1", cifar_stem ? conv(in, channels, 3, 1) : conv(in, channels, 7, 2));
    bn1_ = register_module("bn1", std::make_shared<BatchNorm>(channels));
    for (std::size_t stage = 0; stage < shape.blocks.size(); ++stage) {
      nn::ModuleList blocks;
      const std::int64_t width = std::int64_t{64} << stage;
      const std::int64_t out = shape.kind == BlockKind::kBasic ? width : 4 * width;
      for (int i = 0; i < shape.blocks[stage]; ++i) {
        blocks->push_back(
            std::make_shared<Block>(BlockShape{.kind = shape.kind,
                                               .in = channels,
                                               .width = width,
                                               .out = out,
                                               .stride = i == 0 && stage > 0 ? 2 : 1}));
        channels = out;
      }
      stages_.push_back(register_module("layer" + std::to_string(stage + 1), blocks));
    }
    fc_ = register_module("fc", nn::Linear(channels, num_outputs(data, shape.name)));
  }

  torch::Tensor forward(const torch::Tensor& input) override {
    torch::Tensor x = bn1_->forward(conv1_->forward(input)).relu_();
    if (!cifar_stem_) x = torch::max_pool2d(x, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
    for (const nn::ModuleList& stage : stages_) {
      for (const auto& block : *stage) x = block->as<Block>()->forward(x);
    }
    return fc_->forward(x.mean({2, 3}));
  }

 private:
  bool cifar_stem_;
  nn::Conv2d conv1_{nullptr};
  std::shared_ptr<BatchNorm> bn1_;
  std::vector<nn::ModuleList> stages_;
  nn::Linear fc_{nullptr};
};

ModelEntry entry(const ResNetShape& shape) {
  return {.name = shape.name,
          .help = "Residual network; parameters are named and shaped as torchvision's.",
          .options = {{.name = "stem",
                       .default_value = std::string("imagenet"),
                       .help = "imagenet: 7x7 convolution of stride 2 and max-pool; cifar: 3x3 "
                               "convolution of stride 1, for small images.",
                       .choices = {"imagenet", "cifar"}}},
          .make = [shape](const Options& options, const DatasetSpec& data) {
            return std::make_shared<ResNet>(shape, options.get<std::string>("stem") == "cifar",
                                            data);
          }};
}

}  // namespace

ModelEntry resnet18_entry() {
  return entry({.name = "resnet18", .kind = BlockKind::kBasic, .blocks = {2, 2, 2, 2}});
}

ModelEntry resnet34_entry() {
  return entry({.name = "resnet34", .kind = BlockKind::kBasic, .blocks = {3, 4, 6, 3}});
}

ModelEntry resnet50_entry() {
  return entry({.name = "resnet50", .kind = BlockKind::kBottleneck, .blocks = {3, 4, 6, 3}});
}

}  // namespace trireme
