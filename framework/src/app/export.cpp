// SPDX-License-Identifier: Apache-2.0
#include "app/export.hpp"

#include <chrono>
#include <filesystem>
#include <map>
#include <string_view>
#include <vector>

#include "app/declared.hpp"
#include "app/estimate.hpp"
#include "app/find_checkpoint.hpp"
#include "app/torch_file.hpp"
#include "base/text.hpp"
#include "checkpoint/archive.hpp"
#include "checkpoint/output_file.hpp"
#include "checkpoint/safetensors.hpp"
#include "comm/shared_error.hpp"
#include "train/training_state.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Whether to write safetensors, else PyTorch's format.
bool is_safetensors(const fs::path& out) {
  if (out.extension() == ".safetensors") return true;
  if (out.extension() == ".pt") return false;
  throw ConfigError("command line: " + out.string() +
                    ": expected a name that ends in .safetensors or in .pt (for torch.load)");
}

struct Weights {
  std::vector<ArrayInfo> arrays;                   // under the model's names
  std::map<std::string, const ArrayInfo*> stored;  // [model's name], the reader's
  std::int64_t bytes = 0;
};

// Parameters and buffers.
Weights weights_of(const CheckpointReader& reader, const fs::path& from) {
  Weights weights;
  for (const ArrayInfo& info : reader.arrays()) {
    const std::size_t slash = info.name.find('/');
    const std::string_view kind = std::string_view(info.name).substr(0, slash);
    if (kind != "parameters" && kind != "buffers") continue;
    const std::string name = info.name.substr(slash + 1);
    if (!weights.stored.emplace(name, &info).second)
      throw CheckpointError(from.string() + " has '" + name + "' as a parameter and as a buffer");
    weights.arrays.push_back({.name = name, .dtype = info.dtype, .shape = info.shape});
    weights.bytes += static_cast<std::int64_t>(info.size_bytes());
  }
  return weights;
}

void write_weights(const CommandLine& line, const Registry& registry, Launch& launch) {
  const fs::path out = line.other;
  const bool safetensors = is_safetensors(out);
  OutputFile file(out, line.force ? Existing::kReplace : Existing::kRefuse);
  const fs::path from = find_checkpoint(line.target, line.best ? Wanted::kBest : Wanted::kNewest);
  const CheckpointReader reader(from);
  const StateDocument document = parse_state(reader.state(), from.string());
  const Weights weights = weights_of(reader, from);
  const auto read = [&](const ArrayInfo& info, std::span<std::byte> data) {
    reader.read(*weights.stored.at(info.name), data);
  };
  if (safetensors) {
    const Config config =
        parse_config({.file = from.string() + " (configuration)", .text = document.config},
                     declared_options(registry))
            .config;
    write_safetensors(file, weights.arrays,
                      {{"format", "pt"},  // of the names and shapes, as PyTorch's
                       {"model", config.model.name},
                       {"step", std::to_string(document.state.step)}},
                      read);
  } else {
    write_torch_file(file, weights.arrays, read);
  }
  file.commit();
  say(launch, from.string() + " -> " + out.string() + ": " +
                  plural(static_cast<std::int64_t>(weights.arrays.size()), "array") + ", " +
                  human_bytes(weights.bytes) + "\n");
}

}  // namespace

int export_weights(const CommandLine& line, const Registry& registry, Launch& launch) {
  Communicator& world = launch.world();
  world.set_timeout(std::chrono::hours(24));  // the others wait, however much there is to write
  collectively(world, [&] {
    if (world.rank() == 0) write_weights(line, registry, launch);
  });
  return 0;
}

}  // namespace trireme
