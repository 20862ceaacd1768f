// SPDX-License-Identifier: Apache-2.0
#include "train/initial_weights.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "base/text.hpp"
#include "checkpoint/archive.hpp"
#include "checkpoint/array_text.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/safetensors.hpp"
#include "config/problems.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

namespace fs = std::filesystem;

struct StoredArray {
  std::string dtype;  // "f32", "bf16"
  std::vector<std::int64_t> shape;
  std::size_t index = 0;  // as its file counts them
};

// A file of weights, under the model's names.
class WeightsFile {
 public:
  virtual ~WeightsFile() = default;
  virtual void read(std::size_t index, std::span<std::byte> data) const = 0;

  const std::map<std::string, StoredArray>& arrays() const { return arrays_; }

 protected:
  std::map<std::string, StoredArray> arrays_;
};

class CheckpointWeights final : public WeightsFile {
 public:
  explicit CheckpointWeights(const fs::path& path) : reader_(path) {
    for (std::size_t i = 0; i < reader_.arrays().size(); ++i) {
      const ArrayInfo& info = reader_.arrays()[i];
      const std::size_t slash = info.name.find('/');
      const std::string kind = info.name.substr(0, slash);
      if (kind != "parameters" && kind != "buffers") continue;
      arrays_.emplace(info.name.substr(slash + 1),
                      StoredArray{std::string(name_of(info.dtype)), info.shape, i});
    }
  }
  void read(std::size_t index, std::span<std::byte> data) const override {
    reader_.read(reader_.arrays()[index], data);
  }

 private:
  CheckpointReader reader_;
};

class SafetensorsWeights final : public WeightsFile {
 public:
  explicit SafetensorsWeights(const fs::path& path) : reader_(path) {
    const std::vector<SafetensorsTensor>& tensors = reader_.header().tensors;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      std::string dtype = tensors[i].dtype;
      std::ranges::transform(dtype, dtype.begin(),
                             [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      arrays_.emplace(tensors[i].name, StoredArray{dtype, tensors[i].shape, i});
    }
  }
  void read(std::size_t index, std::span<std::byte> data) const override {
    reader_.read(reader_.header().tensors[index], data);
  }

 private:
  SafetensorsReader reader_;
};

std::unique_ptr<WeightsFile> open_weights(const fs::path& path) {
  if (path.extension() == ".safetensors") return std::make_unique<SafetensorsWeights>(path);
  return std::make_unique<CheckpointWeights>(path);
}

constexpr std::pair<const char*, at::ScalarType> kTypes[] = {
    {"f64", at::kDouble}, {"f32", at::kFloat}, {"f16", at::kHalf}, {"bf16", at::kBFloat16},
    {"i64", at::kLong},   {"u8", at::kByte},   {"bool", at::kBool}};

// The type of a model's tensor; one of kTypes, since make_replica has seen to it.
std::string type_name(const at::Tensor& tensor) {
  const auto found = std::ranges::find(kTypes, tensor.scalar_type(),
                                       &std::pair<const char*, at::ScalarType>::second);
  TRIREME_ASSERT(found != std::end(kTypes), "the model's types are known");
  return found->first;
}

at::ScalarType type_of(const std::string& dtype) {
  return std::ranges::find(kTypes, dtype, &std::pair<const char*, at::ScalarType>::first)->second;
}

bool is_half(const std::string& dtype) { return dtype == "f16" || dtype == "bf16"; }
bool is_float(const std::string& dtype) {
  return dtype == "f32" || dtype == "f64" || is_half(dtype);
}

// Whether stored numbers of type `from` may become the model's `to`.
bool converts(const std::string& from, const std::string& to, Fit fit) {
  if (from == to) return true;
  if (from == "u8" && to == "bool") return true;  // as checkpoints hold them
  return is_float(from) && is_float(to) && (is_half(from) || fit == Fit::kPartial);
}

std::vector<NamedTensor> tensors_of(const Replica& replica) {
  std::vector<NamedTensor> tensors;
  for (const auto* kind : {&replica.trained, &replica.frozen, &replica.buffers})
    tensors.insert(tensors.end(), kind->begin(), kind->end());
  return tensors;
}

struct Match {
  at::Tensor tensor;  // of the model
  std::string name;
  const StoredArray* stored;
};

struct Comparison {
  std::vector<Match> fitting;
  std::vector<std::string> differences;             // rows of a table
  std::map<std::string, std::int64_t> conversions;  // ["bf16 -> f32"]: arrays
};

Comparison compare(const std::vector<NamedTensor>& model, const WeightsFile& file, Fit fit) {
  Comparison result;
  std::set<std::string> known;
  const auto row = [&](const std::string& name, const std::string& here, const std::string& there) {
    constexpr std::size_t kShown = 200;  // names and types of a file are of any length
    result.differences.push_back("  " + printable(name.substr(0, kShown)) + ": model " + here +
                                 ", file " + printable(there.substr(0, kShown)));
  };
  for (const NamedTensor& want : model) {
    known.insert(want.name);
    const std::string type = type_name(want.tensor);
    const std::string here = array_text(type, want.tensor.sizes().vec());
    const auto found = file.arrays().find(want.name);
    if (found == file.arrays().end()) {
      row(want.name, here, "none");
      continue;
    }
    const StoredArray& have = found->second;
    if (have.shape != want.tensor.sizes().vec() || !converts(have.dtype, type, fit)) {
      row(want.name, here, array_text(have.dtype, have.shape));
      continue;
    }
    result.fitting.push_back({want.tensor, want.name, &have});
    if (have.dtype != type) ++result.conversions[have.dtype + " -> " + type];
  }
  for (const auto& [name, have] : file.arrays()) {
    if (!known.contains(name)) row(name, "none", array_text(have.dtype, have.shape));
  }
  return result;
}

std::string table(const std::vector<std::string>& rows) {
  constexpr std::size_t kMostShown = 100;
  std::string text;
  for (std::size_t i = 0; i < std::min(rows.size(), kMostShown); ++i) text += "\n" + rows[i];
  if (rows.size() > kMostShown)
    text += "\n  ... and " + std::to_string(rows.size() - kMostShown) + " more";
  return text;
}

void require_fit(const Comparison& found, Fit fit, const fs::path& path) {
  if (fit == Fit::kStrict && !found.differences.empty()) {
    throw CheckpointError("model.init_from: " + path.string() +
                          " does not fit the model:" + table(found.differences) +
                          "\nwith model.init_strict: false what has the same name and shape is "
                          "taken over, and the rest starts from run.seed");
  }
  if (found.fitting.empty()) {
    throw CheckpointError("model.init_from: nothing in " + path.string() +
                          " fits the model:" + table(found.differences));
  }
}

std::string describe(const Comparison& found, const fs::path& path) {
  std::string text = "weights start from " + path.string() + ": " +
                     plural(static_cast<std::int64_t>(found.fitting.size()), "array");
  for (const auto& [types, arrays] : found.conversions)
    text += ", " + std::to_string(arrays) + " of them converted " + types;
  if (found.differences.empty()) return text + "\n";
  return text + "; not taken over:" + table(found.differences) + "\n";
}

void copy_from(const WeightsFile& file, const Match& match, ContentHash& hash) {
  const at::NoGradGuard no_grad;
  const at::Tensor stored = at::empty(match.stored->shape, type_of(match.stored->dtype));
  const std::span bytes(static_cast<std::byte*>(stored.data_ptr()), stored.nbytes());
  file.read(match.stored->index, bytes);
  hash.update(std::as_bytes(std::span(match.name)));
  hash.update(bytes);
  match.tensor.copy_(stored);
}

InitialWeights fit_weights(const fs::path& path, Fit fit, const Replica& replica, bool copy) {
  const std::unique_ptr<WeightsFile> file = open_weights(path);
  const Comparison found = compare(tensors_of(replica), *file, fit);
  require_fit(found, fit, path);
  InitialWeights weights{.path = path.string(),
                         .arrays = static_cast<std::int64_t>(found.fitting.size()),
                         .hash = {},
                         .text = describe(found, path)};
  if (!copy) return weights;
  ContentHash hash;
  for (const Match& match : found.fitting) copy_from(*file, match, hash);
  weights.hash = hash.hex();
  return weights;
}

}  // namespace

InitialWeights load_initial_weights(const fs::path& path, Fit fit, const Replica& replica) {
  return fit_weights(path, fit, replica, /*copy=*/true);
}

InitialWeights check_initial_weights(const fs::path& path, Fit fit, const Replica& replica) {
  return fit_weights(path, fit, replica, /*copy=*/false);
}

}  // namespace trireme
