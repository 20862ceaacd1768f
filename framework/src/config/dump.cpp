// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "config/fields.hpp"
#include "config/problems.hpp"
#include "config/read.hpp"
#include "config/values.hpp"

namespace trireme {
namespace {

using Line = std::pair<std::string, std::string>;  // key, value in YAML

// The keys of one group that are set.
std::vector<Line> group_lines(const GroupConfig& group) {
  std::vector<Line> lines;
  for (const Field<GroupConfig>& field : group_fields()) {
    const std::string text = yaml_text(field.get(group));
    if (!text.empty()) lines.emplace_back(field.key, text);
  }
  return lines;
}

// The keys of one section but its groups.
std::vector<Line> section_lines(const Section& section, const Config& config) {
  std::vector<Line> lines;
  for (const Field<Config>& field : section.fields) {
    lines.emplace_back(field.key, yaml_text(field.get(config)));
  }
  const Options* options = section.registered ? section.registered->get_options(config) : nullptr;
  if (options == nullptr) return lines;
  for (const auto& [name, value] : options->values()) {
    lines.emplace_back(name, yaml_text(to_value(value)));
  }
  return lines;
}

class Dump {
 public:
  explicit Dump(const std::map<std::string, std::string>* origin) : origin_(origin) {}

  std::string write(const Config& config) {
    for (const Section& section : config_sections()) {
      text_ += (text_.empty() ? "" : "\n") + section.name + ":\n";
      for (const auto& [key, value] : section_lines(section, config)) {
        add(std::string("  ").append(key).append(": ").append(value), section.name + "." + key);
      }
      if (section.has_groups) add_groups(config.optimizer.groups, section.name + ".groups");
    }
    return std::move(text_);
  }

 private:
  void add_groups(const std::vector<GroupConfig>& groups, const std::string& key) {
    add(groups.empty() ? "  groups: []" : "  groups:", key);
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const char* indent = "    - ";
      const std::string prefix = key + "." + std::to_string(i) + ".";
      for (const auto& [name, value] : group_lines(groups[i])) {
        add(std::string(indent).append(name).append(": ").append(value), prefix + name);
        indent = "      ";
      }
    }
  }

  void add(const std::string& line, const std::string& key) {
    text_ += line;
    if (origin_ != nullptr) {
      const auto found = origin_->find(key);
      const std::string from = found == origin_->end() ? "default" : printable(found->second);
      text_ += from == "default" ? "  # default" : "  # from " + from;
    }
    text_ += '\n';
  }

  const std::map<std::string, std::string>* origin_;
  std::string text_;
};

// Every key of a configuration, in the order of the dump.
std::vector<Line> all_lines(const Config& config) {
  std::vector<Line> lines;
  const auto append = [&](const std::string& prefix, std::vector<Line> more) {
    for (Line& line : more) lines.emplace_back(prefix + line.first, std::move(line.second));
  };
  for (const Section& section : config_sections()) {
    append(section.name + ".", section_lines(section, config));
    if (!section.has_groups) continue;
    for (std::size_t i = 0; i < config.optimizer.groups.size(); ++i) {
      append(section.name + ".groups." + std::to_string(i) + ".",
             group_lines(config.optimizer.groups[i]));
    }
  }
  return lines;
}

}  // namespace

std::string dump_config(const Config& config, const std::map<std::string, std::string>* origin) {
  return Dump(origin).write(config);
}

std::vector<ConfigDifference> compare_configs(const Config& before, const Config& after) {
  constexpr const char* kAbsent = "not set";
  const std::vector<Line> old_lines = all_lines(before);
  std::vector<Line> new_lines = all_lines(after);
  std::map<std::string, std::string> added(new_lines.begin(), new_lines.end());
  std::vector<ConfigDifference> differences;
  for (const auto& [key, value] : old_lines) {
    const auto found = added.find(key);
    const std::string now = found == added.end() ? kAbsent : found->second;
    if (now != value) differences.push_back({key, value, now});
    if (found != added.end()) added.erase(found);
  }
  for (const auto& [key, value] : new_lines) {
    if (added.contains(key)) differences.push_back({key, kAbsent, value});
  }
  return differences;
}

}  // namespace trireme
