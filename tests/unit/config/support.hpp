// SPDX-License-Identifier: Apache-2.0
// A small world of parts and a valid configuration of them, for the tests of this folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/read.hpp"
#include "trireme/error.hpp"

namespace trireme {

inline DeclaredOptions test_parts() {
  DeclaredOptions parts;
  parts.models["mlp"] = {
      {"hidden", std::vector<std::int64_t>{64, 32}, "Widths of the hidden layers.", 1, 4096},
      {"dropout", 0.0, "Share of units dropped.", 0, 0.9},
      {"bias", true, "Whether layers have a bias."}};
  parts.models["convnet"] = {
      {"width", std::int64_t{16}, "Channels of the first layer.", 1, 1024},
      {"activation", std::string("relu"), "Nonlinearity.", {}, {}, {"relu", "gelu"}},
      {"dropout", std::int64_t{0}, "Layers with dropout.", 0, 8}};
  parts.datasets["cifar10"] = {};
  parts.datasets["synthetic"] = {{"samples", std::int64_t{100}, "How many.", 1}};
  parts.losses["cross_entropy"] = {{"smoothing", 0.0, "Label smoothing.", 0, 1}};
  parts.losses["mse"] = {};
  parts.metrics = {"accuracy", "error"};
  parts.help["model.mlp"] = "A plain network.";
  return parts;
}

// Valid; line numbers matter to the tests.
inline const std::string kValid =
    "model:\n"
    "  name: mlp\n"
    "data:\n"
    "  name: synthetic\n"
    "optimizer:\n"
    "  name: sgd\n"
    "  lr: 0.1\n"
    "train:\n"
    "  epochs: 2\n"
    "  global_batch: 32\n";

// kValid with more lines in a section, or behind the sections: "top".
inline std::string with(const std::string& section, const std::string& lines) {
  std::string text = kValid;
  if (section == "top") return text + lines;
  const auto start = text.find(section + ":\n");
  if (start == std::string::npos) return text + section + ":\n" + lines;
  return text.insert(start + section.size() + 2, lines);
}

inline ReadConfig read(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_config({.file = "a.yaml", .text = text, .overrides = overrides}, test_parts());
}

// What a ConfigError says of this text; "" where there is none.
inline std::string errors_of(const std::string& text,
                             const std::vector<std::string>& overrides = {}) {
  try {
    read(text, overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace trireme
