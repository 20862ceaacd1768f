// SPDX-License-Identifier: Apache-2.0
// The configuration of a command: found and read by rank 0, the same on all ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/command_line.hpp"
#include "config/read.hpp"
#include "trireme/communicator.hpp"
#include "trireme/registry.hpp"

namespace trireme {

// What rank 0 found on disk and every rank has to know.
struct Source {
  std::string file;        // for messages; empty: there is nothing
  std::string text;        // of the configuration
  std::string checkpoint;  // to start from; empty: from step 0
};

// What the command line changes of a configuration.
struct Changes {
  std::vector<std::string> overrides = {};
  std::string network_file = {};  // empty: none
};
Changes changes_of(const CommandLine& command_line);

// Collective. What find gives on rank 0; SharedError where it throws.
Source from_rank_0(Communicator& world, const std::function<Source()>& find);
// The same for the file that the command line names.
Source named_file(const CommandLine& command_line, Communicator& world);

// Collective. SharedError where the text is no configuration, or where the ranks' differ.
ReadConfig read_config(const Source& source, const Changes& changes, const Registry& registry,
                       Communicator& world);

}  // namespace trireme
