// SPDX-License-Identifier: Apache-2.0
#include "config/read.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "config/checks.hpp"
#include "config/fields.hpp"
#include "config/overrides.hpp"
#include "config/problems.hpp"
#include "config/unknown.hpp"
#include "config/values.hpp"
#include "config/yaml.hpp"

namespace trireme {
namespace {

class Reader {
 public:
  Reader(const ConfigSource& source, const DeclaredOptions& declared)
      : source_(source), declared_(declared), problems_(source.file) {}

  ReadConfig read() {
    YamlNode root = read_tree();
    for (const YamlEntry& entry : root.entries) {
      if (std::ranges::find(config_sections(), entry.key, &Section::name) ==
          config_sections().end()) {
        problems_.add(entry.place, entry.key, unknown_section(entry.key));
      }
    }
    for (const Section& section : config_sections()) read_section(section, root);
    fill_names();
    check_config(config_, places_, problems_);
    problems_.throw_if_any();
    std::map<std::string, std::string> origin = origins();
    return {.config = std::move(config_), .origin = std::move(origin)};
  }

  NetworkConfig read_network() {
    YamlNode root = read_tree();
    read_section(*std::ranges::find(config_sections(), "network", &Section::name), root);
    check_network(config_, places_, problems_);
    problems_.throw_if_any();
    return std::move(config_.network);
  }

 private:
  YamlNode read_tree() {
    YamlNode root(YamlNode::Kind::kMap, {1, 1});
    if (!source_.file.empty()) root = read_file();
    if (!source_.network_file.empty()) lay_network_over(root);
    for (const std::string& text : source_.overrides) apply_override(text, root, problems_);
    return root;
  }

  YamlNode read_file() {
    YamlNode root = parse_yaml(source_.text, "", problems_);
    if (root.kind == YamlNode::Kind::kNull) {
      problems_.fail({1, 1}, "", "the file is empty; expected sections such as model: and data:");
    }
    if (root.kind != YamlNode::Kind::kMap) {
      problems_.fail(root.place, "", "expected sections such as model: and data: at the top");
    }
    return root;
  }

  void lay_network_over(YamlNode& root) {
    const int file = problems_.add_file(source_.network_file);
    YamlNode other = parse_yaml(source_.network_text, "", problems_, file);
    YamlNode* section = other.find("network");
    if (section == nullptr || other.entries.size() != 1 || section->kind != YamlNode::Kind::kMap) {
      problems_.fail({1, 1, file}, "",
                     "is no file of network settings; expected a section network: and no other, as "
                     "in configs/network/tcp.yaml");
    }
    YamlNode* old = root.find("network");
    if (old == nullptr || old->kind != YamlNode::Kind::kMap) {
      std::erase_if(root.entries, [](const YamlEntry& entry) { return entry.key == "network"; });
      root.entries.push_back(std::move(other.entries.front()));
      return;
    }
    for (YamlEntry& entry : section->entries) {
      std::erase_if(old->entries, [&](const YamlEntry& e) { return e.key == entry.key; });
      old->entries.push_back(std::move(entry));
    }
  }

  void read_section(const Section& section, YamlNode& root) {
    YamlNode empty(YamlNode::Kind::kMap, {1, 1});
    YamlNode* node = root.find(section.name);
    if (node == nullptr) node = &empty;
    if (node->kind == YamlNode::Kind::kNull) {
      problems_.add(node->place, section.name,
                    "the section is empty; expected keys below it; delete it or add keys");
    } else if (node->kind != YamlNode::Kind::kMap) {
      if (node->kind != YamlNode::Kind::kRefused) {
        problems_.add(node->place, section.name, "expected a section with key: value lines");
      }
      return;
    }
    read_fields(section, *node);
    read_others(section, *node);
  }

  void read_fields(const Section& section, YamlNode& node) {
    for (const Field<Config>& field : section.fields) {
      read_field(field, section.name + ".", node, config_);
    }
    if (!section.registered) return;
    // The name decides which other keys there are.
    const std::string key = section.name + ".name";
    const std::string name = part_name(section);
    const std::vector<std::string> names = section.registered->names(declared_);
    const bool known = std::ranges::find(names, name) != names.end();
    if (known || (name.empty() && !places_.written.contains(key)) ||
        places_.unreadable.contains(key)) {
      return;
    }
    places_.unreadable.insert(key);
    const auto written = places_.written.find(key);
    problems_.add(written == places_.written.end() ? Place{1, 1} : written->second, key,
                  unknown_part(*section.registered, declared_, name));
  }

  // Reads `field` from `node` into `owner`, or reports that it is missing.
  template <class Owner>
  void read_field(const Field<Owner>& field, const std::string& prefix, YamlNode& node,
                  Owner& owner) {
    const std::string key = prefix + field.key;
    const YamlNode* value_node = node.find(field.key);
    if (value_node == nullptr) {
      if (!field.limits.required) return;
      places_.unreadable.insert(key);
      problems_.add(node.place.line == 0 ? Place{1, 1} : node.place, key,
                    "is missing; expected " + expectation(field));
      return;
    }
    places_.written[key] = value_node->place;
    const std::optional<Value> value = read_value(*value_node, field, key, problems_);
    if (value) {
      field.set(owner, *value);
    } else {
      places_.unreadable.insert(key);
    }
  }

  std::string part_name(const Section& section) const {
    const auto field = std::ranges::find(section.fields, "name", &FieldSpec::key);
    return std::get<std::string>(field->get(config_));
  }

  // What is no field: groups, options of the part that `name` chooses, unknown keys.
  void read_others(const Section& section, YamlNode& node) {
    const std::string part = section.registered ? part_name(section) : "";
    const std::vector<OptionSpec>& specs = declared_options(section, declared_, part);
    const bool part_unknown = places_.unreadable.contains(section.name + ".name");
    Options options = default_options(specs);
    for (const YamlEntry& entry : node.entries) {
      const std::string key = section.name + "." + entry.key;
      const auto spec = std::ranges::find(specs, entry.key, &OptionSpec::name);
      const bool is_field =
          std::ranges::find(section.fields, entry.key, &FieldSpec::key) != section.fields.end();
      TRIREME_ASSERT(!is_field || spec == specs.end(), "option '" + key + "' hides a key");
      if (is_field) continue;
      if (section.has_groups && entry.key == "groups") {
        read_groups(entry.value, key);
      } else if (spec != specs.end()) {
        places_.written[key] = entry.value.place;
        const auto value = read_value(entry.value, option_field(*spec), key, problems_);
        if (value) options.set(spec->name, to_option_value(*value));
      } else if (!(part_unknown && is_option_of_any(section, entry.key))) {
        problems_.add(entry.place, key, unknown_key(section, entry.key, declared_, part));
      }
    }
    if (section.registered) section.registered->set_options(config_, options);
  }

  bool is_option_of_any(const Section& section, const std::string& key) const {
    if (!section.registered) return false;
    const std::vector<std::string> names = section.registered->names(declared_);
    return std::ranges::any_of(names, [&](const std::string& name) {
      const auto& specs = declared_options(section, declared_, name);
      return std::ranges::find(specs, key, &OptionSpec::name) != specs.end();
    });
  }

  void read_groups(const YamlNode& node, const std::string& key) {
    if (node.kind == YamlNode::Kind::kRefused) return;
    if (node.kind != YamlNode::Kind::kList) {
      problems_.add(node.place, key, "expected a list of groups, each with a match: key");
      return;
    }
    places_.written[key] = node.place;
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      read_group(node.items[i], key + "." + std::to_string(i));
    }
  }

  void read_group(YamlNode node, const std::string& key) {
    if (node.kind == YamlNode::Kind::kRefused) return;
    if (node.kind != YamlNode::Kind::kMap) {
      problems_.add(node.place, key, "expected a group with keys such as match: and lr:");
      return;
    }
    GroupConfig group;
    group.origin = problems_.where(node.place);
    for (const Field<GroupConfig>& field : group_fields()) {
      read_field(field, key + ".", node, group);
    }
    for (const YamlEntry& entry : node.entries) {
      const auto& fields = group_fields();
      if (std::ranges::find(fields, entry.key, &FieldSpec::key) == fields.end()) {
        problems_.add(entry.place, key + "." + entry.key, unknown_group_key(entry.key));
      }
    }
    config_.optimizer.groups.push_back(std::move(group));
  }

  // Defaults that depend on others.
  void fill_names() {
    if (!places_.written.contains("run.name")) {
      config_.run.name = std::filesystem::path(source_.file).stem().string();
    }
    if (!places_.written.contains("run.dir")) config_.run.dir = "runs/" + config_.run.name;
  }

  std::map<std::string, std::string> origins() const {
    std::map<std::string, std::string> result;
    for (const Section& section : config_sections()) {
      const std::string prefix = section.name + ".";
      for (const Field<Config>& field : section.fields) result[prefix + field.key] = "default";
      if (section.has_groups) result[prefix + "groups"] = "default";
      const Options* options =
          section.registered ? section.registered->get_options(config_) : nullptr;
      if (options == nullptr) continue;
      for (const auto& [name, value] : options->values()) result[prefix + name] = "default";
    }
    for (const auto& [key, place] : places_.written) result[key] = problems_.where(place);
    return result;
  }

  const ConfigSource& source_;
  const DeclaredOptions& declared_;
  Problems problems_;
  Config config_;
  KeyPlaces places_;
};

}  // namespace

ReadConfig parse_config(const ConfigSource& source, const DeclaredOptions& declared) {
  return Reader(source, declared).read();
}

NetworkConfig parse_network(const ConfigSource& source) {
  const DeclaredOptions none;
  return Reader(source, none).read_network();
}

}  // namespace trireme
