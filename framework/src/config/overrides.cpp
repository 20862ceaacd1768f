// SPDX-License-Identifier: Apache-2.0
#include "config/overrides.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include "config/fields.hpp"
#include "config/unknown.hpp"

namespace trireme {
namespace {

constexpr Place kCommandLine{};

std::vector<std::string> split(std::string_view key) {
  std::vector<std::string> parts;
  for (std::size_t start = 0;;) {
    const std::size_t dot = key.find('.', start);
    parts.emplace_back(key.substr(start, dot - start));
    if (dot == std::string_view::npos) return parts;
    start = dot + 1;
  }
}

void set(YamlNode& map, const std::string& key, YamlNode value) {
  if (YamlNode* old = map.find(key)) {
    *old = std::move(value);
  } else {
    map.entries.push_back({.key = key, .place = kCommandLine, .value = std::move(value)});
  }
}

// The group that "optimizer.groups.INDEX" names, nullptr (and a problem) where there is none.
YamlNode* find_group(YamlNode& section, const std::string& key, const std::string& index_text,
                     Problems& problems) {
  const YamlNode* groups = section.find("groups");
  const bool is_list = groups != nullptr && groups->kind == YamlNode::Kind::kList;
  const std::size_t count = is_list ? groups->items.size() : 0;
  std::size_t index = count;
  const char* end = index_text.data() + index_text.size();
  const auto [stop, error] = std::from_chars(index_text.data(), end, index);
  if (error != std::errc() || stop != end || index >= count) {
    problems.add(kCommandLine, key,
                 "no such group; the configuration lists " + std::to_string(count) +
                     "; expected an index from 0, such as optimizer.groups.0.lr");
    return nullptr;
  }
  YamlNode* group = &section.find("groups")->items[index];
  return group->kind == YamlNode::Kind::kMap ? group : nullptr;  // reported when it is read
}

}  // namespace

void apply_override(const std::string& text, YamlNode& root, Problems& problems) {
  const std::size_t equals = text.find('=');
  const std::string key = text.substr(0, equals);
  const std::vector<std::string> parts = split(key);
  const bool empty_part = std::ranges::find(parts, "") != parts.end();
  const bool group_key = parts.size() == 4 && parts[0] == "optimizer" && parts[1] == "groups";
  if (equals == std::string::npos || empty_part || !(parts.size() == 2 || group_key)) {
    const auto& sections = config_sections();
    const bool section = std::ranges::find(sections, parts[0], &Section::name) != sections.end();
    problems.add(
        kCommandLine, "",
        quoted(text) + " is no setting; expected section.key=value, such as " + "optimizer.lr=0.1" +
            (parts.size() == 1 && !section && !parts[0].empty() ? "; " + unknown_section(parts[0])
                                                                : ""));
    return;
  }
  YamlNode value = parse_yaml(std::string_view(text).substr(equals + 1), key, problems);
  value.place = kCommandLine;
  if (root.find(parts[0]) == nullptr)
    set(root, parts[0], YamlNode(YamlNode::Kind::kMap, kCommandLine));
  YamlNode* section = root.find(parts[0]);
  if (section->kind == YamlNode::Kind::kNull)
    *section = YamlNode(YamlNode::Kind::kMap, kCommandLine);
  if (section->kind != YamlNode::Kind::kMap) return;  // reported when it is read
  YamlNode* owner = group_key ? find_group(*section, key, parts[2], problems) : section;
  if (owner != nullptr) set(*owner, parts.back(), std::move(value));
}

}  // namespace trireme
