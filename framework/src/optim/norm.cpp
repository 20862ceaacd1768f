// SPDX-License-Identifier: Apache-2.0
#include "optim/norm.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>

#include <ATen/ops/linalg_vector_norm.h>

#include "trireme/error.hpp"

namespace trireme {
namespace {

template <class T>
double sum_of_squares(std::span<const T> values) {
  // Independent sums, which the compiler may keep in one vector register.
  std::array<double, 8> sums{};
  const std::size_t whole = values.size() / sums.size() * sums.size();
  for (std::size_t i = 0; i < whole; i += sums.size()) {
    for (std::size_t lane = 0; lane < sums.size(); ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  }
  for (std::size_t i = whole; i < values.size(); ++i) {
    const double value = values[i];
    sums[i - whole] += value * value;
  }
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

template <class T>
std::span<const T> elements(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<T>(), static_cast<std::size_t>(tensor.numel())};
}

void add_block(double block, SquaredNorm& norm) {
  if (std::isfinite(block)) {
    norm.sum.add(block);
  } else {
    norm.is_finite = false;
  }
}

template <class T>
void add_blocks(std::span<const T> values, SquaredNorm& norm) {
  constexpr auto kBlock = static_cast<std::size_t>(kNormBlock);
  for (std::size_t at = 0; at < values.size(); at += kBlock) {
    add_block(sum_of_squares(values.subspan(at, std::min(kBlock, values.size() - at))), norm);
  }
}

}  // namespace

void add_squares(const at::Tensor& tensor, SquaredNorm& norm) {
  TRIREME_ASSERT(tensor.is_contiguous(), "a flat piece of a bucket is expected");
  if (!tensor.is_cpu()) {
    const auto root = at::linalg_vector_norm(tensor, 2, {}, false, at::kDouble).item<double>();
    return add_block(root * root, norm);
  }
  if (tensor.scalar_type() == at::kFloat) return add_blocks(elements<float>(tensor), norm);
  TRIREME_ASSERT(tensor.scalar_type() == at::kDouble, "gradients are float32 or float64");
  add_blocks(elements<double>(tensor), norm);
}

}  // namespace trireme
