// SPDX-License-Identifier: Apache-2.0
#include "base/cores.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "trireme/error.hpp"

namespace trireme {
namespace {

bool read_affinity(cpu_set_t& mask) {
  CPU_ZERO(&mask);
  return sched_getaffinity(0, sizeof mask, &mask) == 0;
}

}  // namespace

int available_cores() {
  cpu_set_t mask;
  if (!read_affinity(mask)) {
    throw EnvironmentError(std::string("sched_getaffinity: ") + std::strerror(errno));
  }
  return CPU_COUNT(&mask);
}

std::string core_list() {
  cpu_set_t mask;
  if (!read_affinity(mask)) return {};
  std::string cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &mask)) cores += (cores.empty() ? "" : ",") + std::to_string(core);
  }
  return cores;
}

int count_cores(std::span<const std::string> lists) {
  std::set<std::string> cores;
  for (const std::string& list : lists) {
    for (std::size_t begin = 0; begin < list.size();) {
      const std::size_t end = std::min(list.find(',', begin), list.size());
      cores.insert(list.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return static_cast<int>(cores.size());
}

}  // namespace trireme
