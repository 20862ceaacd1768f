// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/config/support.hpp"

namespace trireme {
namespace {

using testing::HasSubstr;

class ReadConfigText : public testing::Test {
 protected:
  ReadConfigText() {
    std::string pattern = (std::filesystem::temp_directory_path() / "trireme-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~ReadConfigText() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }
  static std::string error_of(const std::string& path) {
    try {
      read_config_text(path);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path folder_;
};

TEST_F(ReadConfigText, GivesTheBytesOfTheFile) {
  write("a.yaml", "model:\r\n  x: 1\n");
  EXPECT_EQ(read_config_text(path("a.yaml")), "model:\r\n  x: 1\n");
  write("limit.yaml", std::string(1'000'000, '#'));
  EXPECT_EQ(read_config_text(path("limit.yaml")).size(), 1'000'000u);
}

TEST_F(ReadConfigText, AMissingFileGetsTheNamesThatAreNear) {
  write("cifar.yaml", "");
  EXPECT_EQ(error_of(path("cifra.yaml")), path("cifra.yaml") +
                                              ": no such configuration file; did you mean "
                                              "'cifar.yaml'?");
  EXPECT_THAT(error_of(path("cifar")), HasSubstr("did you mean 'cifar.yaml'?"));
  EXPECT_THAT(error_of(path("no/folder.yaml")), HasSubstr("no such configuration file"));
}

TEST_F(ReadConfigText, DirectoriesPipesAndLargeFilesAreRefusedAtOnce) {
  EXPECT_THAT(error_of(folder_.string()), HasSubstr("is a directory; expected a YAML file"));
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_of(path("pipe")), HasSubstr("is not a regular file"));
  write("large.yaml", "");
  std::filesystem::resize_file(path("large.yaml"), 50'000'000);
  EXPECT_THAT(error_of(path("large.yaml")), HasSubstr("over 1000000 bytes"));
}

TEST_F(ReadConfigText, AFileThatMayNotBeReadIsNamedWithTheReason) {
  std::filesystem::create_symlink("loop.yaml", path("loop.yaml"));
  EXPECT_THAT(error_of(path("loop.yaml")), HasSubstr("cannot be read: "));
  write("locked.yaml", "a: 1\n");
  std::filesystem::permissions(path("locked.yaml"), std::filesystem::perms::none);
  if (std::ifstream(path("locked.yaml"))) GTEST_SKIP() << "runs as root, who may read everything";
  EXPECT_THAT(error_of(path("locked.yaml")), HasSubstr("cannot be opened: Permission denied"));
}

}  // namespace
}  // namespace trireme
