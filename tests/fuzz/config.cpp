// SPDX-License-Identifier: Apache-2.0
// A configuration file, and the section network that is read alone before MPI starts.
#include "config/read.hpp"
#include "fuzz/fuzz.hpp"
#include "unit/config/support.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  const std::string text = fuzz::text_of({data, size});
  Config config;
  if (fuzz::takes(ExitCode::kUsage, [&] { config = read(text).config; })) {
    const Config again = read(dump_config(config)).config;
    fuzz::require(compare_configs(config, again).empty(), "what is dumped reads back");
  }
  fuzz::takes(ExitCode::kUsage, [&] { parse_network({.file = "a.yaml", .text = text}); });
  fuzz::takes(ExitCode::kUsage,
              [&] { parse_network({.network_file = "network.yaml", .network_text = text}); });
  return 0;
}
