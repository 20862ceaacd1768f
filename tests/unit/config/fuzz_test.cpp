// SPDX-License-Identifier: Apache-2.0
// Whatever the bytes are: a configuration or a ConfigError, in bounded memory; the sanitizers watch
// in CI.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "unit/config/support.hpp"

namespace trireme {
namespace {

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::string mutate(std::string text) {
    for (std::uint64_t i = 1 + below(2); i > 0; --i) change(text);
    return text;
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }

  void change(std::string& text) {
    static const std::string kPieces[] = {
        "[",      "]",    "{",        "}",    ",",   ":",  ": ",    "- ",  "? ",
        "\n",     "\t",   "\"",       "'",    "|",   ">",  "&a",    "*a",  "<<: ",
        "!!int ", "%",    "---",      "...",  "#",   "~",  ".nan",  "010", "@",
        "\\",     "\r\n", "\xc3\xa9", "\xff", "1e9", "  ", "model", "lr:", "groups:"};
    const std::size_t at = below(text.size() + 1);
    switch (below(4)) {
      case 0:
        text.insert(at, kPieces[below(std::size(kPieces))]);
        break;
      case 1:
        text.erase(at, below(12));
        break;
      case 2:
        text.insert(at, text.substr(below(text.size() + 1), below(60)));
        break;
      default:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
    }
  }

  std::mt19937_64 random_;
};

TEST(ConfigFuzz, AnyTextIsReadOrRefusedAndWhatIsReadCanBeWritten) {
  const std::string full = dump_config(read(kValid, {"optimizer.groups=[{match: a}]"}).config);
  int read_back = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    const std::string text = Mutator(seed).mutate(seed % 2 == 0 ? kValid : full);
    try {
      const Config config = read(text).config;
      EXPECT_TRUE(compare_configs(config, read(dump_config(config)).config).empty()) << text;
      ++read_back;
    } catch (const ConfigError& error) {
      EXPECT_STRNE(error.what(), "");
    }
  }
  EXPECT_GT(read_back, 50) << "the mutations break everything: they test the first check only";
}

TEST(ConfigFuzz, AnyOverrideIsTakenOrRefused) {
  int taken = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const std::string text = Mutator(seed).mutate("data.mean=[0.5, 0.25]");
    try {
      read(kValid, {text});
      ++taken;
    } catch (const ConfigError& error) {
      EXPECT_STRNE(error.what(), "");
    }
  }
  EXPECT_GT(taken, 20);
}

}  // namespace
}  // namespace trireme
