// SPDX-License-Identifier: Apache-2.0
// The formula that weights and samples of the golden tests are made of: tests/golden/make_golden.py
// says what it is and repeats it in Python. Exact on both sides.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

namespace trireme::test {

// FNV-1a of the name, plus the index, through the finaliser of splitmix64.
inline std::uint64_t golden_hash(std::string_view name, std::uint64_t index) {
  std::uint64_t seed = 0xCBF29CE484222325;
  for (const char c : name) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  std::uint64_t z = seed + index + 0x9E3779B97F4A7C15;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
  z = (z ^ z >> 27) * 0x94D049BB133111EB;
  return z ^ z >> 31;
}

// In [-1, 1).
inline double golden_value(std::string_view name, std::uint64_t index) {
  return static_cast<double>(golden_hash(name, index) >> 11) * 0x1p-52 - 1;
}

// In 0 .. 255: pixels of "image", tokens of "token".
inline std::uint8_t golden_byte(std::string_view name, std::uint64_t index) {
  return static_cast<std::uint8_t>(golden_hash(name, index) >> 56);
}

inline std::int64_t golden_label(std::uint64_t sample, std::int64_t num_classes) {
  return static_cast<std::int64_t>(golden_hash("label", sample) %
                                   static_cast<std::uint64_t>(num_classes));
}

// Fills the parameter `name` in its logical order, whatever its dtype and memory layout.
inline void golden_fill(std::string_view name, at::Tensor parameter) {
  const at::Tensor values = at::empty(parameter.sizes(), at::kDouble);
  double* out = values.mutable_data_ptr<double>();
  const auto count = static_cast<std::uint64_t>(parameter.numel());
  const bool matrix = parameter.dim() >= 2;
  const double columns = matrix ? static_cast<double>(parameter.numel() / parameter.size(0)) : 1;
  const double base = name.ends_with("weight") ? 1 : 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double value = golden_value(name, i);
    out[i] = matrix ? value / std::sqrt(columns) : base + 0.1 * value;
  }
  parameter.data().copy_(values);
}

}  // namespace trireme::test
