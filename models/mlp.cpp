// SPDX-License-Identifier: Apache-2.0
// Fully connected layers with ReLU between them. Parameters: layers.0.weight, layers.0.bias,
// layers.1.weight, ...
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>

#include "entries.hpp"

namespace trireme {
namespace {

class Mlp final : public Model {
 public:
  Mlp(std::vector<std::int64_t> widths, double dropout) {
    register_module("layers", layers_);
    register_module("dropouts", dropouts_);
    for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
      if (i > 0) dropouts_->push_back(std::make_shared<Dropout>(dropout));
      layers_->push_back(torch::nn::Linear(widths[i], widths[i + 1]));
    }
  }

  torch::Tensor forward(const torch::Tensor& input) override {
    torch::Tensor x = input.flatten(1);
    for (std::size_t i = 0; i < layers_->size(); ++i) {
      if (i > 0) x = dropouts_[i - 1]->as<Dropout>()->forward(x.relu());
      x = layers_[i]->as<torch::nn::LinearImpl>()->forward(x);
    }
    return x;
  }

 private:
  torch::nn::ModuleList layers_;
  torch::nn::ModuleList dropouts_;  // one between two layers: each draws its own mask
};

std::shared_ptr<Model> make(const Options& options, const DatasetSpec& data) {
  if (data.input_dtype == DType::kI64) {
    throw ConfigError("model.name mlp takes images or features, but data.name gives token ids");
  }
  std::vector<std::int64_t> widths{1};
  for (const std::int64_t extent : data.input_shape) widths[0] *= extent;
  const auto& hidden = options.get<std::vector<std::int64_t>>("hidden");
  widths.insert(widths.end(), hidden.begin(), hidden.end());
  widths.push_back(num_outputs(data, "mlp"));
  return std::make_shared<Mlp>(widths, options.get<double>("dropout"));
}

}  // namespace

ModelEntry mlp_entry() {
  return {.name = "mlp",
          .help = "Fully connected layers with ReLU, for images and features.",
          .options = {{.name = "hidden",
                       .default_value = std::vector<std::int64_t>{256, 256},
                       .help = "Widths of the hidden layers; [] is a linear model.",
                       .min = 1,
                       .max = 1e6},
                      dropout_option()},
          .make = make};
}

}  // namespace trireme
