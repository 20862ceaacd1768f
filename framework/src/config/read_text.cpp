// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "base/text.hpp"
#include "config/problems.hpp"
#include "config/read.hpp"
#include "config/yaml.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

// Configurations beside the one that is missing, for a misspelt path.
std::string suggestion(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::vector<std::string> names;
  std::error_code error;  // an unreadable folder gives no suggestions
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  const std::string with_ending = path.filename().string() + ".yaml";
  const std::string text = std::ranges::find(names, with_ending) != names.end()
                               ? "did you mean '" + with_ending + "'?"
                               : did_you_mean(path.filename().string(), names);
  return text.empty() ? "; give the path of a YAML file" : "; " + text;
}

[[noreturn]] void refuse(const std::string& path, const std::string& text) {
  throw ConfigError(printable(path) + ": " + text);
}

}  // namespace

std::string read_config_text(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    refuse(path, "no such configuration file" + suggestion(path));
  }
  if (error) refuse(path, "cannot be read: " + error.message());
  if (std::filesystem::is_directory(status)) {
    refuse(path, "is a directory; expected a YAML file");
  }
  // A pipe or a device may never end.
  if (!std::filesystem::is_regular_file(status)) refuse(path, "is not a regular file");

  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(path, std::string("cannot be opened: ") + std::strerror(errno));
  std::string text(kMostConfigBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) refuse(path, std::string("cannot be read: ") + std::strerror(errno));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMostConfigBytes) {
    refuse(path, "over " + std::to_string(kMostConfigBytes) +
                     " bytes; expected a configuration; is this the right file?");
  }
  return text;
}

std::string read_network_text(const std::string& path) {
  if (std::filesystem::path(path).has_extension() || std::filesystem::exists(path))
    return read_config_text(path);
  // "tcp" is a value of network.transport, or was meant for the preset of that name.
  refuse(path,
         "is no file of network settings; expected the path of one, as in --network "
         "configs/network/tcp.yaml; single keys are set without --network, as in "
         "network.transport=tcp");
}

}  // namespace trireme
