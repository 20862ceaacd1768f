// SPDX-License-Identifier: Apache-2.0
#include "app/checkpoint_diff.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "app/declared.hpp"
#include "app/table.hpp"
#include "base/text.hpp"
#include "checkpoint/archive.hpp"
#include "checkpoint/array_text.hpp"
#include "train/training_state.hpp"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Row = std::vector<std::string>;

double distance(double a, double b) { return std::abs(a - b); }
double distance(std::int64_t a, std::int64_t b) {
  const auto low = static_cast<std::uint64_t>(std::min(a, b));
  const auto high = static_cast<std::uint64_t>(std::max(a, b));
  return static_cast<double>(high - low);  // modulo 2^64: right for any two
}

template <class T, class Wide>
ElementDifference compare(std::span<const std::byte> a, std::span<const std::byte> b) {
  ElementDifference difference;
  for (std::size_t at = 0; at < a.size(); at += sizeof(T)) {
    if (std::memcmp(a.data() + at, b.data() + at, sizeof(T)) == 0) continue;
    T left{}, right{};
    std::memcpy(&left, a.data() + at, sizeof(T));
    std::memcpy(&right, b.data() + at, sizeof(T));
    ++difference.elements;
    const double apart = distance(static_cast<Wide>(left), static_cast<Wide>(right));
    // NaN stays once it is there.
    if (std::isnan(apart) || apart > difference.largest) difference.largest = apart;
  }
  return difference;
}

std::string number(double value, const char* format) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

// How array `info` of both differs; empty: not at all.
std::string differing_values(const CheckpointReader& a, const CheckpointReader& b,
                             const ArrayInfo& info) {
  std::vector<std::byte> left(info.size_bytes()), right(info.size_bytes());
  a.read(info, left);
  b.read(info, right);
  const ElementDifference difference = compare_elements(left, right, info.dtype);
  if (difference.elements == 0) return {};
  return std::to_string(difference.elements) + " of " +
         plural(static_cast<std::int64_t>(info.size_bytes() / size_of(info.dtype)), "element") +
         " differ, by at most " + number(difference.largest, "%.6g");
}

std::vector<Row> differing_arrays(const CheckpointReader& a, const CheckpointReader& b) {
  std::set<std::string> names;
  for (const CheckpointReader* reader : {&a, &b}) {
    for (const ArrayInfo& info : reader->arrays()) names.insert(info.name);
  }
  const auto text = [](const ArrayInfo* info) {
    return info == nullptr ? "none" : array_text(name_of(info->dtype), info->shape);
  };
  std::vector<Row> rows;
  for (const std::string& name : names) {
    const ArrayInfo* left = a.find(name);
    const ArrayInfo* right = b.find(name);
    if (left == nullptr || right == nullptr || *left != *right) {
      rows.push_back({name, text(left) + " -> " + text(right)});
    } else if (std::string values = differing_values(a, b, *left); !values.empty()) {
      rows.push_back({name, std::move(values)});
    }
  }
  return rows;
}

// What a resumed run goes on from, besides arrays. Where the checkpoint was made is not among it.
std::vector<std::pair<std::string, std::string>> state_fields(const StateDocument& document) {
  const TrainingState& state = document.state;
  return {{"step", std::to_string(state.step)},
          {"epoch", number(document.epoch, "%.17g")},
          {"best_metric", state.best_metric ? number(*state.best_metric, "%.17g") : "null"},
          {"best_step", std::to_string(state.best_step)},
          {"evaluations_without_best", std::to_string(state.evaluations_without_best)},
          {"evaluation_pending", state.evaluation_pending ? "true" : "false"},
          {"evaluated_to", std::to_string(state.evaluated_to)}};
}

std::vector<Row> differing_state(const StateDocument& a, const StateDocument& b) {
  const auto before = state_fields(a), after = state_fields(b);
  std::vector<Row> rows;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].second == after[i].second) continue;
    rows.push_back({before[i].first, before[i].second + " -> " + after[i].second});
  }
  return rows;
}

std::vector<Row> differing_configuration(const StateDocument& a, const StateDocument& b,
                                         const Registry& registry) {
  if (a.config == b.config) return {};
  std::vector<Row> rows;
  try {
    const DeclaredOptions declared = declared_options(registry);
    const Config before = parse_config({.file = "A", .text = a.config}, declared).config;
    const Config after = parse_config({.file = "B", .text = b.config}, declared).config;
    for (const ConfigDifference& difference : compare_configs(before, after))
      rows.push_back({difference.key, difference.before + " -> " + difference.after});
  } catch (const ConfigError& error) {
    rows.push_back({std::string("cannot be compared: ") + error.what()});
  }
  return rows;
}

std::string section(const std::string& title, const std::vector<Row>& rows) {
  return rows.empty() ? std::string() : title + "\n" + indented(aligned(rows));
}

}  // namespace

ElementDifference compare_elements(std::span<const std::byte> a, std::span<const std::byte> b,
                                   DType dtype) {
  TRIREME_ASSERT(a.size() == b.size(), "arrays of one length are compared");
  switch (dtype) {
    case DType::kU8:
      return compare<std::uint8_t, std::int64_t>(a, b);
    case DType::kI64:
      return compare<std::int64_t, std::int64_t>(a, b);
    case DType::kF32:
      return compare<float, double>(a, b);
    case DType::kF64:
      return compare<double, double>(a, b);
  }
  TRIREME_ASSERT(false, "unknown type");
}

CheckpointDiff diff_checkpoints(const fs::path& a, const fs::path& b, const Registry& registry) {
  const CheckpointReader left(a), right(b);
  const StateDocument before = parse_state(left.state(), a.string());
  const StateDocument after = parse_state(right.state(), b.string());
  const std::vector<Row> arrays = differing_arrays(left, right);
  const std::vector<Row> state = differing_state(before, after);
  return {.text = "A: " + a.string() + "\nB: " + b.string() + "\n" + section("arrays", arrays) +
                  section("training state", state) +
                  section("configuration", differing_configuration(before, after, registry)),
          .equal = arrays.empty() && state.empty()};
}

}  // namespace trireme
