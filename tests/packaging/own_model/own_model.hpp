// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/modules/linear.h>

#include "trireme/model.hpp"

// y = W2 tanh(W1 x + b1) + b2: real features of any count, one real target.
class OwnModel : public trireme::Model {
 public:
  OwnModel(std::int64_t inputs, std::int64_t width)
      : hidden_(register_module("hidden", torch::nn::Linear(inputs, width))),
        output_(register_module("output", torch::nn::Linear(width, 1))) {}

  torch::Tensor forward(const torch::Tensor& input) override {
    return output_(hidden_(input).tanh()).squeeze(1);  // (N, F) -> (N)
  }

 private:
  torch::nn::Linear hidden_, output_;
};
