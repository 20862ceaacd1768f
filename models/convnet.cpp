// SPDX-License-Identifier: Apache-2.0
// A small convolutional network for small images: three times 3x3 convolution, BatchNorm, max-pool
// 2, ReLU, with widths w, 2w, 4w, then dropout and a linear layer. Parameters: convs.N.weight,
// norms.N.{weight,bias}, head.{weight,bias}.
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "entries.hpp"

namespace trireme {
namespace {

namespace nn = torch::nn;

class ConvNet final : public Model {
 public:
  ConvNet(std::int64_t width, double dropout, const DatasetSpec& data)
      : dropout_(register_module("dropout", std::make_shared<Dropout>(dropout))) {
    register_module("convs", convs_);
    register_module("norms", norms_);
    std::int64_t in = image_channels(data, "convnet", /*smallest=*/8);
    for (const std::int64_t out : {width, 2 * width, 4 * width}) {
      convs_->push_back(nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1).bias(false)));
      norms_->push_back(std::make_shared<BatchNorm>(out));
      in = out;
    }
    const std::int64_t pixels = (data.input_shape[1] / 8) * (data.input_shape[2] / 8);
    head_ = register_module("head", nn::Linear(in * pixels, num_outputs(data, "convnet")));
  }

  torch::Tensor forward(const torch::Tensor& input) override {
    torch::Tensor x = input;
    for (std::size_t i = 0; i < convs_->size(); ++i) {
      x = convs_[i]->as<nn::Conv2dImpl>()->forward(x);
      x = norms_[i]->as<BatchNorm>()->forward(x);
      // Pooling before the ReLU gives the same and costs a quarter.
      x = torch::max_pool2d(x, 2).relu();
    }
    return head_->forward(dropout_->forward(x.flatten(1)));
  }

 private:
  nn::ModuleList convs_, norms_;
  std::shared_ptr<Dropout> dropout_;
  nn::Linear head_{nullptr};
};

std::shared_ptr<Model> make(const Options& options, const DatasetSpec& data) {
  return std::make_shared<ConvNet>(options.get<std::int64_t>("width"),
                                   options.get<double>("dropout"), data);
}

}  // namespace

ModelEntry convnet_entry() {
  return {.name = "convnet",
          .help = "Three convolutions and a linear layer, for small images.",
          .options = {{.name = "width",
                       .default_value = std::int64_t{32},
                       .help = "Channels after the first convolution; doubled by each later one.",
                       .min = 1,
                       .max = 4096},
                      dropout_option()},
          .make = make};
}

}  // namespace trireme
