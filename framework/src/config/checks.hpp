// SPDX-License-Identifier: Apache-2.0
// What keys demand of each other, once each has a value of its own type and range.
#pragma once

#include <map>
#include <set>
#include <string>

#include "config/config.hpp"
#include "config/problems.hpp"

namespace trireme {

// What is known of the keys beside their values. [dotted key]
struct KeyPlaces {
  std::map<std::string, Place> written;  // where each key was set; absent: its default holds
  std::set<std::string> unreadable;      // set, but to nothing usable: says nothing about others
};

void check_config(const Config& config, const KeyPlaces& places, Problems& problems);
// Of section network alone.
void check_network(const Config& config, const KeyPlaces& places, Problems& problems);

}  // namespace trireme
