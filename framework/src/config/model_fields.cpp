// SPDX-License-Identifier: Apache-2.0
#include "config/field_types.hpp"

namespace trireme {

Section model_section() {
  const auto model = &Config::model;
  return {
      .name = "model",
      .help = "What is trained. Keys below `name` that a model declares belong to that model only.",
      .fields =
          {
              field("name", model, &ModelConfig::name, "A registered model.", {.required = true}),
              field("init", model, &ModelConfig::init,
                    "Initial weights of convolutions and linear layers; default leaves the model's "
                    "own.",
                    {.choices = {"default", "xavier_uniform", "kaiming_normal", "normal"}}),
              field("init_std", model, &ModelConfig::init_std,
                    "Standard deviation of `init: normal`.",
                    {.min = 0, .max = 1e3, .above_min = true}),
              field(
                  "init_from", model, &ModelConfig::init_from,
                  "What a new run takes its parameters and buffers from, before the first step: a "
                  "checkpoint, a run directory (its best checkpoint, else its newest), or a "
                  "`.safetensors` file. A resumed run does not read it again.",
                  {.synonyms = {"pretrained", "weights", "checkpoint", "load_from"}}),
              field(
                  "init_strict", model, &ModelConfig::init_strict,
                  "With init_from: every parameter and buffer has to be there, with the same "
                  "shape and type, and no other; false takes over what has the same name and "
                  "shape, and says what has not. Numbers in f16 and bf16 are converted under both.",
                  {.synonyms = {"strict"}}),
              field("freeze", model, &ModelConfig::freeze,
                    "Patterns on parameter names (`*` any characters, `?` one) of what is not "
                    "trained: no gradient, no optimizer state. Buffers go on counting: a BatchNorm "
                    "of frozen layers still updates its running statistics.",
                    {.synonyms = {"frozen", "freeze_layers"}}),
              field("channels_last", model, &ModelConfig::channels_last,
                    "Keep images and convolution weights in (N, H, W, C) order: often faster on "
                    "CPUs."),
          },
      .registered = registered("model", &DeclaredOptions::models, model)};
}

}  // namespace trireme
