// SPDX-License-Identifier: Apache-2.0
// The network of the fastest published route to 94 % on CIFAR-10 (K. Jordan, "94% on CIFAR-10
// in 3.29 seconds on a single GPU", 2024): frozen whitening convolution 2x2, three groups of two
// 3x3 convolutions, a linear layer. Trained by configs/cifar.yaml. Parameters:
// whiten.{weight,bias}, groups.N.{conv1,conv2}.weight, groups.N.{norm1,norm2}.{weight,bias},
// head.weight; whiten.weight and the norms' weights take no gradient.
#include <torch/nn/init.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>

#include "entries.hpp"

namespace trireme {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kKernel = 2;     // of the whitening
constexpr std::int64_t kSmallest = 27;  // pixels: the last max-pool takes 3x3

nn::Conv2d conv3x3(std::int64_t in, std::int64_t out) {
  nn::Conv2d layer(nn::Conv2dOptions(in, out, 3).padding(1).bias(false));
  // Starts as the identity on as many channels as there are.
  nn::init::dirac_(layer->weight.data().narrow(0, 0, std::min(in, out)));
  return layer;
}

std::shared_ptr<BatchNorm> fixed_scale_norm(std::int64_t channels) {
  auto norm =
      std::make_shared<BatchNorm>(channels, BatchNormOptions{.eps = 1e-12, .momentum = 0.4});
  norm->weight.requires_grad_(false);
  return norm;
}

class Group final : public nn::Module {
 public:
  Group(std::int64_t in, std::int64_t out)
      : conv1_(register_module("conv1", conv3x3(in, out))),
        norm1_(register_module("norm1", fixed_scale_norm(out))),
        conv2_(register_module("conv2", conv3x3(out, out))),
        norm2_(register_module("norm2", fixed_scale_norm(out))) {}

  torch::Tensor forward(const torch::Tensor& input) {
    const torch::Tensor x =
        torch::gelu(norm1_->forward(torch::max_pool2d(conv1_->forward(input), 2)));
    return torch::gelu(norm2_->forward(conv2_->forward(x)));
  }

 private:
  nn::Conv2d conv1_;
  std::shared_ptr<BatchNorm> norm1_;
  nn::Conv2d conv2_;
  std::shared_ptr<BatchNorm> norm2_;
};

// Sum over all kKernel x kKernel patches p of p p', in double; also counts them.
torch::Tensor sum_of_patch_products(const torch::Tensor& images, std::int64_t& num_patches) {
  const std::int64_t size = images.size(1) * kKernel * kKernel;
  torch::Tensor sum = torch::zeros({size, size}, images.options().dtype(torch::kDouble));
  // In pieces: the patches of all samples at once would take gigabytes.
  for (const torch::Tensor& piece : images.split(500)) {
    const torch::Tensor patches = piece.to(torch::kDouble)
                                      .unfold(2, kKernel, 1)
                                      .unfold(3, kKernel, 1)
                                      .permute({0, 2, 3, 1, 4, 5})
                                      .reshape({-1, size});
    sum += torch::matmul(patches.t(), patches);
    num_patches += patches.size(0);
  }
  return sum;
}

class CifarNet final : public Model {
 public:
  CifarNet(std::int64_t width, std::int64_t whiten_samples, const DatasetSpec& data)
      : whiten_samples_(whiten_samples) {
    const std::int64_t in = image_channels(data, "cifar_net", kSmallest);
    const std::int64_t filters = 2 * in * kKernel * kKernel;
    whiten_ = register_module("whiten", nn::Conv2d(nn::Conv2dOptions(in, filters, kKernel)));
    whiten_->weight.requires_grad_(false);
    register_module("groups", groups_);
    groups_->push_back(std::make_shared<Group>(filters, width));
    groups_->push_back(std::make_shared<Group>(width, 4 * width));
    groups_->push_back(std::make_shared<Group>(4 * width, 4 * width));
    const std::int64_t outputs = num_outputs(data, "cifar_net");
    head_ = register_module("head", nn::Linear(nn::LinearOptions(4 * width, outputs).bias(false)));
    head_->weight.data().div_(head_->weight.data().std());
  }

  torch::Tensor forward(const torch::Tensor& input) override {
    torch::Tensor x = torch::gelu(whiten_->forward(input));
    for (const auto& group : *groups_) x = group->as<Group>()->forward(x);
    return head_->forward(torch::max_pool2d(x, 3).flatten(1)) / 256;
  }

  std::int64_t num_init_samples() const override { return whiten_samples_; }

  // Filters v / sqrt(l + 5e-4) for each eigenvalue l and eigenvector v of the patches' second
  // moments, and their negatives.
  void init_from_samples(const torch::Tensor& images) override {
    const torch::NoGradGuard no_grad;
    std::int64_t num_patches = 0;
    const torch::Tensor sum = sum_of_patch_products(images, num_patches);
    // On the CPU: a GPU's solver may return other signs, and so another network.
    const auto [values, vectors] = at::linalg_eigh((sum / num_patches).cpu());
    const torch::Tensor half = (vectors / (values + 5e-4).sqrt()).t();
    whiten_->weight.copy_(torch::cat({half, -half}).reshape(whiten_->weight.sizes()));
  }

 private:
  std::int64_t whiten_samples_;
  nn::Conv2d whiten_{nullptr};
  nn::ModuleList groups_;
  nn::Linear head_{nullptr};
};

std::shared_ptr<Model> make(const Options& options, const DatasetSpec& data) {
  return std::make_shared<CifarNet>(options.get<std::int64_t>("width"),
                                    options.get<std::int64_t>("whiten_samples"), data);
}

}  // namespace

ModelEntry cifar_net_entry() {
  return {.name = "cifar_net",
          .help = "Small network for fast CIFAR-10 training, with a whitening first layer.",
          .options = {{.name = "width",
                       .default_value = std::int64_t{64},
                       .help = "Channels of the first group; the others have four times as many.",
                       .min = 1,
                       .max = 4096},
                      {.name = "whiten_samples",
                       .default_value = std::int64_t{5000},
                       .help = "Training samples that the frozen first layer is computed from; 0 "
                               "leaves it random.",
                       .min = 0,
                       .max = 1e6}},
          .make = make};
}

}  // namespace trireme
