// SPDX-License-Identifier: Apache-2.0
// train.update_in_backward: bitwise what an update after backward gives, or an error: never a wrong
// gradient (Note [Updates inside backward]).
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "support/training.hpp"
#include "trireme/error.hpp"
#include "trireme/model.hpp"

namespace trireme::test {
namespace {

std::string yaml(const std::string& model, const std::string& train) {
  return "model: {name: " + model + R"(}
data: {name: synthetic, samples: 101, classes: 4, shape: [3, 6, 6], mean: [0.5, 0.5, 0.5], std: [0.25, 0.25, 0.25]}
optimizer: {name: adamw, lr: 0.01, weight_decay: 0.1}
parallel: {bucket_mb: 0.002, edge_bucket_mb: 0.001}
train: {max_steps: 20, global_batch: 10, precision: fp64, )" +
         train + "}\n";
}

// Layers of 108 numbers: the middle one of three is used in several ways.
struct ThreeLayers : Model {
  ThreeLayers() {
    first = register_module("first", torch::nn::Linear(108, 108));
    middle = register_module("middle", torch::nn::Linear(108, 108));
    last = register_module("last", torch::nn::Linear(108, 4));
  }
  torch::nn::Linear first{nullptr}, middle{nullptr}, last{nullptr};
};

struct Tied : ThreeLayers {
  torch::Tensor forward(const torch::Tensor& input) override {
    const torch::Tensor x = middle(torch::tanh(first(input.flatten(1))));
    return last(torch::tanh(torch::linear(torch::tanh(middle(x)), middle->weight.t())));
  }
};

// Backward through the middle layer is a recomputation, with a backward of its own: its gradients
// arrive several times.
class Recomputed : public torch::autograd::Function<Recomputed> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               const torch::nn::Linear& layer) {
    const at::AutoGradMode off(false);
    context->save_for_backward({x});
    context->saved_data["layer"] = c10::IValue(reinterpret_cast<std::int64_t>(layer.get()));
    return torch::tanh(torch::linear(x, layer->weight, layer->bias));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto* layer = reinterpret_cast<torch::nn::LinearImpl*>(context->saved_data["layer"].toInt());
    const torch::Tensor x = context->get_saved_variables()[0].detach().requires_grad_(true);
    const at::AutoGradMode on(true);
    torch::tanh(torch::linear(x, layer->weight, layer->bias)).backward(gradients[0]);
    return {x.grad(), torch::Tensor()};
  }
};

struct Checkpointed : ThreeLayers {
  torch::Tensor forward(const torch::Tensor& input) override {
    torch::Tensor x = torch::tanh(first(input.flatten(1)));
    for (int i = 0; i < 2; ++i)
      x = is_training() ? Recomputed::apply(x, middle) : torch::tanh(middle(x));
    return last(torch::tanh(middle(x)));
  }
};

// The middle weight is used once with its gradient and, earlier in forward, once without.
struct DetachedBefore : ThreeLayers {
  virtual torch::Tensor weight() { return middle->weight.detach(); }
  torch::Tensor forward(const torch::Tensor& input) override {
    const torch::Tensor x = torch::tanh(first(input.flatten(1)));
    return last(torch::tanh(middle(torch::tanh(torch::linear(x, weight())))));
  }
};

// The same behind autograd's back: no version counter tells.
struct DataBefore : DetachedBefore {
  torch::Tensor weight() override { return middle->weight.variable_data(); }
};

// The same by a function that saves the parameter itself, which is no input of it.
class TimesWeight : public torch::autograd::Function<TimesWeight> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               const torch::nn::Linear& layer) {
    context->save_for_backward({layer->weight});
    return torch::linear(x, layer->weight);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {torch::matmul(gradients[0], context->get_saved_variables()[0]), torch::Tensor()};
  }
};

struct SavedBefore : ThreeLayers {
  torch::Tensor forward(const torch::Tensor& input) override {
    const torch::Tensor x = torch::tanh(first(input.flatten(1)));
    return last(torch::tanh(middle(torch::tanh(TimesWeight::apply(x, middle)))));
  }
};

// The same the other way round: backward has done with it before the gradient arrives.
struct DetachedAfter : ThreeLayers {
  torch::Tensor forward(const torch::Tensor& input) override {
    const torch::Tensor x = torch::tanh(middle(torch::tanh(first(input.flatten(1)))));
    return last(torch::tanh(torch::linear(x, middle->weight.detach())));
  }
};

template <class M>
void add(Registry& registry, const std::string& name) {
  registry.add(ModelEntry{name, "A test.", {}, [](const Options&, const DatasetSpec&) {
                            return std::make_shared<M>();
                          }});
}

Registry models() {
  Registry registry = all_parts();
  add<Tied>(registry, "tied");
  add<Checkpointed>(registry, "checkpointed");
  add<DetachedBefore>(registry, "detached_before");
  add<DataBefore>(registry, "data_before");
  add<SavedBefore>(registry, "saved_before");
  add<DetachedAfter>(registry, "detached_after");
  return registry;
}

TrainingRun run(const std::string& model, bool in_backward, const TrainingSetup& setup,
                const std::string& more = "micro_batch: 0") {
  const Registry registry = models();
  const std::string train_keys =
      std::string("update_in_backward: ") + (in_backward ? "true, " : "false, ") + more;
  return train(config_of(yaml(model, train_keys), registry), setup, registry);
}

void expect_same(const std::string& model, const std::string& more = "micro_batch: 0") {
  for (const auto& [ranks, per_node] : {std::pair(1, 0), std::pair(3, 0), std::pair(4, 2)}) {
    const TrainingSetup setup{.ranks = ranks, .ranks_per_node = per_node};
    const TrainingRun after = run(model, false, setup, more);
    const TrainingRun inside = run(model, true, setup, more);
    EXPECT_EQ(after.losses, inside.losses) << model << " on " << ranks;
    EXPECT_TRUE(bitwise_equal(after.parameters, inside.parameters)) << model << " on " << ranks;
  }
}

TEST(UpdateInBackward, IsBitwiseAnUpdateAfterIt) {
  expect_same("mlp, hidden: [24, 16], dropout: 0.2");
}

TEST(UpdateInBackward, IsBitwiseWithAccumulationAndRanksWithoutSamples) {
  expect_same("mlp, hidden: [24, 16]", "micro_batch: 2");
}

TEST(UpdateInBackward, IsBitwiseForTiedWeights) { expect_same("tied"); }

TEST(UpdateInBackward, IsBitwiseForWeightsThatARecomputationUsesAgain) {
  expect_same("checkpointed");
}

TEST(UpdateInBackward, IsBitwiseForAWeightThatWasDetachedLater) { expect_same("detached_after"); }

TEST(UpdateInBackward, RefusesAWeightThatBackwardStillNeedsWithoutItsGradient) {
  for (const char* model : {"detached_before", "data_before", "saved_before"}) {
    EXPECT_NO_THROW(run(model, false, {.ranks = 2}));
    try {
      run(model, true, {.ranks = 2});
      FAIL() << "backward took an updated weight of " << model;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("train.update_in_backward: false"),
                std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace trireme::test
