// SPDX-License-Identifier: Apache-2.0
// Values from the command line, put into the tree before it is read: they pass the same checks as
// the file's.
#pragma once

#include <string>

#include "config/problems.hpp"
#include "config/yaml.hpp"

namespace trireme {

// text: "section.key=YAML value" or "optimizer.groups.INDEX.key=YAML value" with the index of a
// group in the tree. Replaces or adds the value; what cannot be placed is added to `problems`. root
// is a map.
void apply_override(const std::string& text, YamlNode& root, Problems& problems);

}  // namespace trireme
