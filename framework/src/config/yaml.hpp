// SPDX-License-Identifier: Apache-2.0
// The strict subset of YAML that a configuration may use, as a tree. yaml-cpp does the scanning;
// what it lets pass is refused here: duplicate keys, anchors and aliases, merge keys, tags,
// directives, a second document, deep nesting.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "config/problems.hpp"

namespace trireme {

inline constexpr std::size_t kMostConfigBytes = 1'000'000;

struct YamlEntry;

struct YamlNode {
  // kRefused: already reported; whoever meets it says nothing more.
  enum class Kind { kNull, kScalar, kList, kMap, kRefused };
  Kind kind = Kind::kNull;
  Place place;
  std::string text;                // kScalar
  bool quoted = false;             // kScalar: in quotes or a block, so never a number or a bool
  std::vector<YamlNode> items;     // kList
  std::vector<YamlEntry> entries;  // kMap, in order, keys unique

  YamlNode() = default;
  YamlNode(Kind node_kind, Place node_place);

  YamlNode* find(std::string_view key);
};

struct YamlEntry {
  std::string key;
  Place place;  // of the key
  YamlNode value;
};

// Parses one document. What can be passed over is added to `problems` and left out of the tree;
// what cannot (not YAML at all, not UTF-8, too large) throws by problems.fail. An empty text gives
// kNull. override_key: the text is the value of this key on the command line; "" for a file, whose
// number is `file`.
YamlNode parse_yaml(std::string_view text, std::string_view override_key, Problems& problems,
                    int file = 0);

}  // namespace trireme
