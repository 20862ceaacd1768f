// SPDX-License-Identifier: Apache-2.0
// A decoder-only transformer that normalises before each part of a block (Radford et al. 2019), for
// token sequences. Parameters: token.weight, position.weight,
// blocks.N.{ln1,ln2,qkv,proj,up,down}.{weight,bias}, norm.{weight,bias}, head.weight.
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "entries.hpp"

namespace trireme {
namespace {

namespace nn = torch::nn;

struct GptShape {
  std::int64_t layers = 0, width = 0, heads = 0, context = 0, vocabulary = 0;
  double dropout = 0;
};

nn::LayerNorm layer_norm(std::int64_t width) {
  return nn::LayerNorm(nn::LayerNormOptions({width}));
}

class Block final : public nn::Module {
 public:
  explicit Block(const GptShape& s)
      : heads_(s.heads),
        ln1_(register_module("ln1", layer_norm(s.width))),
        ln2_(register_module("ln2", layer_norm(s.width))),
        qkv_(register_module("qkv", nn::Linear(s.width, 3 * s.width))),
        proj_(register_module("proj", nn::Linear(s.width, s.width))),
        up_(register_module("up", nn::Linear(s.width, 4 * s.width))),
        down_(register_module("down", nn::Linear(4 * s.width, s.width))),
        drop1_(register_module("drop1", std::make_shared<Dropout>(s.dropout))),
        drop2_(register_module("drop2", std::make_shared<Dropout>(s.dropout))) {}

  torch::Tensor forward(const torch::Tensor& input) {  // (N, T, width)
    const torch::Tensor x = input + drop1_->forward(proj_->forward(attend(ln1_->forward(input))));
    return x + drop2_->forward(down_->forward(torch::gelu(up_->forward(ln2_->forward(x)))));
  }

 private:
  torch::Tensor attend(const torch::Tensor& x) {
    const std::int64_t n = x.size(0), t = x.size(1), width = x.size(2);
    const torch::Tensor qkv =  // (3, N, heads, T, width / heads)
        qkv_->forward(x).view({n, t, 3, heads_, width / heads_}).permute({2, 0, 3, 1, 4});
    return at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], /*attn_mask=*/{},
                                            /*dropout_p=*/0, /*is_causal=*/true)
        .transpose(1, 2)
        .reshape({n, t, width});
  }

  std::int64_t heads_;
  nn::LayerNorm ln1_, ln2_;
  nn::Linear qkv_, proj_, up_, down_;
  std::shared_ptr<Dropout> drop1_, drop2_;
};

class Gpt final : public Model {
 public:
  explicit Gpt(const GptShape& s)
      : token_(register_module("token", nn::Embedding(s.vocabulary, s.width))),
        position_(register_module("position", nn::Embedding(s.context, s.width))),
        drop_(register_module("drop", std::make_shared<Dropout>(s.dropout))) {
    register_module("blocks", blocks_);
    for (std::int64_t i = 0; i < s.layers; ++i) blocks_->push_back(std::make_shared<Block>(s));
    norm_ = register_module("norm", layer_norm(s.width));
    head_ =
        register_module("head", nn::Linear(nn::LinearOptions(s.width, s.vocabulary).bias(false)));
  }

  // ids (N, T), T at most the context -> scores (N * T, vocabulary)
  torch::Tensor forward(const torch::Tensor& ids) override {
    const torch::Tensor position = position_->weight.narrow(0, 0, ids.size(1));
    torch::Tensor x = drop_->forward(token_->forward(ids) + position);
    for (const auto& block : *blocks_) x = block->as<Block>()->forward(x);
    return head_->forward(norm_->forward(x)).flatten(0, 1);
  }

 private:
  nn::Embedding token_, position_;
  std::shared_ptr<Dropout> drop_;
  nn::ModuleList blocks_;
  nn::LayerNorm norm_{nullptr};
  nn::Linear head_{nullptr};
};

std::shared_ptr<Model> make(const Options& options, const DatasetSpec& data) {
  if (data.input_dtype != DType::kI64 || data.input_shape.size() != 1 ||
      data.target_shape != data.input_shape) {
    throw ConfigError(
        "model.name gpt takes token ids with one target a token, which data.name does not give; "
        "choose a text data set");
  }
  const GptShape shape{.layers = options.get<std::int64_t>("layers"),
                       .width = options.get<std::int64_t>("width"),
                       .heads = options.get<std::int64_t>("heads"),
                       .context = data.input_shape[0],
                       .vocabulary = data.num_classes,
                       .dropout = options.get<double>("dropout")};
  if (shape.width % shape.heads != 0) {
    throw ConfigError("model.width (" + std::to_string(shape.width) +
                      ") must be a multiple of model.heads (" + std::to_string(shape.heads) + ")");
  }
  return std::make_shared<Gpt>(shape);
}

OptionSpec count(const char* name, std::int64_t value, const char* help) {
  return {.name = name, .default_value = value, .help = help, .min = 1, .max = 65536};
}

}  // namespace

ModelEntry gpt_entry() {
  return {.name = "gpt",
          .help = "Decoder-only transformer for token sequences; its context is the data set's.",
          .options = {count("layers", 6, "Transformer blocks."),
                      count("width", 384, "Size of a token's vector; a multiple of heads."),
                      count("heads", 6, "Attention heads of a block."), dropout_option()},
          .make = make};
}

}  // namespace trireme
