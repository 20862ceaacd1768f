// SPDX-License-Identifier: Apache-2.0
#include "app/source.hpp"

#include "app/declared.hpp"
#include "comm/agree.hpp"
#include "comm/shared_error.hpp"

namespace trireme {
namespace {

// "optimizer.lr: 0.1" for every key that has not its default.
std::vector<std::string> set_values(const Config& config) {
  std::vector<std::string> values;
  for (const ConfigDifference& difference : compare_configs(Config{}, config)) {
    values.push_back(difference.key + ": " + difference.after);
  }
  return values;
}

}  // namespace

Changes changes_of(const CommandLine& line) {
  return {.overrides = line.overrides, .network_file = line.network};
}

Source from_rank_0(Communicator& world, const std::function<Source()>& find) {
  Source source;
  collectively(world, [&] {
    if (world.rank() == 0) source = find();
  });
  for (std::string* text : {&source.file, &source.text, &source.checkpoint}) {
    *text = world.exchange(*text).front();
  }
  return source;
}

Source named_file(const CommandLine& line, Communicator& world) {
  return from_rank_0(world, [&]() -> Source {
    return {.file = line.target, .text = read_config_text(line.target), .checkpoint = {}};
  });
}

ReadConfig read_config(const Source& source, const Changes& changes, const Registry& registry,
                       Communicator& world) {
  std::string network_text;
  if (!changes.network_file.empty()) {
    network_text = from_rank_0(world, [&]() -> Source {
                     return {.file = changes.network_file,
                             .text = read_network_text(changes.network_file),
                             .checkpoint = {}};
                   }).text;
  }
  ReadConfig read;
  collectively(world, [&] {
    read = parse_config({.file = source.file,
                         .text = source.text,
                         .network_file = changes.network_file,
                         .network_text = network_text,
                         .overrides = changes.overrides},
                        declared_options(registry));
  });
  // The text is rank 0's, but overrides are each rank's own.
  collectively(world, [&] { require_equal(world, "the configuration", set_values(read.config)); });
  return read;
}

}  // namespace trireme
