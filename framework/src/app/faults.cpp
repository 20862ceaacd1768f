// SPDX-License-Identifier: Apache-2.0
#include "app/faults.hpp"

#include <CLI/CLI.hpp>

#include "app/sinks.hpp"
#include "base/inject.hpp"
#include "base/text.hpp"
#include "comm/shared_error.hpp"

namespace trireme {
namespace {

std::string check_fault(const std::string& text) {
  try {
    parse_fault(text);
    return {};
  } catch (const ConfigError& error) {
    return error.what();
  }
}

}  // namespace

void add_fault_options(CLI::App& command, std::vector<std::string>& faults) {
  CLI::Option* enable = command.add_flag("--enable-fault-injection");
  enable->description("for tests: allow --inject, which damages this run");
  command
      .add_option("--inject", faults,
                  "a fault, as in rank=1,point=forward,hit=3,action=kill; framework/docs/FAULTS.md "
                  "lists points and actions; may stand several times")
      ->type_name("FAULT")
      ->allow_extra_args(false)
      ->check(CLI::Validator(check_fault, ""))
      ->needs(enable);
}

void arm_faults(const std::vector<std::string>& faults, Launch& launch) {
  if (faults.empty()) return;
  Communicator& world = launch.world();
  std::vector<Fault> parsed;
  collectively(world, [&] {
    for (const std::string& text : faults) {
      parsed.push_back(parse_fault(text));
      if (parsed.back().rank >= world.size()) {
        throw ConfigError("--inject: rank=" + std::to_string(parsed.back().rank) + "; there are " +
                          plural(world.size(), "rank") + ", from 0");
      }
    }
  });
  for (const Fault& fault : parsed) say(launch, "fault injection: " + text_of(fault) + "\n");
  arm_faults(parsed, world.rank());
}

void warn_of_faults_not_reached() {
  for (const std::string& text : faults_not_reached()) {
    warn("the run has not come to the fault " + text +
         ": this rank was not so often at that point");
  }
}

}  // namespace trireme
