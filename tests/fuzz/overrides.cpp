// SPDX-License-Identifier: Apache-2.0
// Overrides of the command line, one a line, over a good configuration.
#include <sstream>

#include "base/inject.hpp"
#include "config/read.hpp"
#include "fuzz/fuzz.hpp"
#include "unit/config/support.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  std::vector<std::string> overrides;
  std::istringstream lines(fuzz::text_of({data, size}));
  for (std::string line; std::getline(lines, line);) overrides.push_back(line);
  Config config;
  if (fuzz::takes(ExitCode::kUsage, [&] { config = read(kValid, overrides).config; })) {
    const Config again = read(dump_config(config)).config;
    fuzz::require(compare_configs(config, again).empty(), "what is dumped reads back");
  }
  for (const std::string& line : overrides) {
    Fault fault;
    if (fuzz::takes(ExitCode::kUsage, [&] { fault = parse_fault(line); }))
      fuzz::require(text_of(parse_fault(text_of(fault))) == text_of(fault), "a fault reads back");
  }
  return 0;
}
