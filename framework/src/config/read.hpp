// SPDX-License-Identifier: Apache-2.0
// From text to a checked Config, and back. Strict: all errors of a text are reported in one
// ConfigError, each at file:line:column (or at "command line"), with a suggestion for
// misspelt keys and choices.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/config.hpp"

namespace trireme {

// What registered parts declare; keeps config/ free of the registry and of torch. [name]
struct DeclaredOptions {
  std::map<std::string, std::vector<OptionSpec>> models;
  std::map<std::string, std::vector<OptionSpec>> datasets;
  std::map<std::string, std::vector<OptionSpec>> losses;
  std::vector<std::string> metrics;
  std::map<std::string, std::string> help;  // "model.resnet18", "data.cifar10" -> one sentence
};

struct ConfigSource {
  std::string file = {};  // for messages
  std::string text = {};  // YAML
  // A file of nothing but a section network: its keys replace those of the file above. "": none.
  std::string network_file = {}, network_text = {};
  // "section.key=YAML value" or "optimizer.groups.INDEX.key=YAML value"; the last one wins.
  std::vector<std::string> overrides = {};
};

struct ReadConfig {
  Config config;
  // "optimizer.lr" -> "configs/a.yaml:12:3" | "command line" | "default"
  std::map<std::string, std::string> origin;
};

// Reads the file with the checks that a text cannot carry: missing, a directory or device, not
// readable, over 1 MB. Throws ConfigError.
std::string read_config_text(const std::string& path);

// The same for a file of network settings.
std::string read_network_text(const std::string& path);

// Takes at most about 2 s and some 100 MB for any text. Throws ConfigError. An option that has the
// name of one of the section's own keys is an InternalError.
ReadConfig parse_config(const ConfigSource& source, const DeclaredOptions& declared);

// Section network alone, with its checks; what else the texts hold is not looked at, and with file
// "" there is only the network file. For what has to be known before MPI starts. Throws
// ConfigError.
NetworkConfig parse_network(const ConfigSource& source);

// YAML that parse_config reads back to the same Config, bit for bit (doubles round-trip). With
// origin: each line carries a comment that says where its value comes from.
std::string dump_config(const Config& config,
                        const std::map<std::string, std::string>* origin = nullptr);

// One line a difference: "optimizer.lr: 0.1 -> 0.2".
struct ConfigDifference {
  std::string key, before, after;  // values as YAML; "not set" where one side lacks the key
};
// In the order of the dump; options of another model or data set and keys of groups included.
std::vector<ConfigDifference> compare_configs(const Config& before, const Config& after);

// JSON Schema (draft 2020-12) of a configuration file, and the reference page in Markdown.
std::string config_schema(const DeclaredOptions& declared);
std::string config_reference(const DeclaredOptions& declared);

}  // namespace trireme
