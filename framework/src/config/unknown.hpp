// SPDX-License-Identifier: Apache-2.0
// Words for keys that do not exist: what may have been meant.
#pragma once

#include <string>

#include "config/fields.hpp"

namespace trireme {

// "unknown key; did you mean 'lr'?" for `key` in `section`, whose registered part is `part` (""
// where there is none).
std::string unknown_key(const Section& section, const std::string& key,
                        const DeclaredOptions& declared, const std::string& part);
// The same for a key of a parameter group.
std::string unknown_group_key(const std::string& key);
// The same for a word at the top of the file.
std::string unknown_section(const std::string& name);

// The name of a part that is not registered.
std::string unknown_part(const Registered& registered, const DeclaredOptions& declared,
                         const std::string& name);

}  // namespace trireme
