// SPDX-License-Identifier: Apache-2.0
#include "device/cpu.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>

#include <malloc.h>

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include "base/cores.hpp"
#include "trireme/error.hpp"

namespace trireme {

int use_threads() {
  int threads = available_cores();
  if (const char* wish = std::getenv("OMP_NUM_THREADS"); wish != nullptr && *wish != '\0') {
    const char* end = wish + std::strlen(wish);
    const auto parsed = std::from_chars(wish, end, threads);
    if (parsed.ec != std::errc() || parsed.ptr != end || threads < 1 || threads > 1024) {
      throw EnvironmentError(std::string("OMP_NUM_THREADS is '") + wish +
                             "'; expected a number from 1 to 1024, or unset it to use the cores "
                             "this rank is bound to");
    }
  }
  at::set_num_threads(threads);
  return threads;
}

void keep_memory() {
  // glibc caps M_MMAP_THRESHOLD at 32 MiB, less than an activation may take: no block gets a
  // mapping of its own.
  const bool kept = mallopt(M_MMAP_MAX, 0) == 1 &&
                    mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max()) == 1;
  TRIREME_ASSERT(kept, "mallopt refused a setting");
}

void return_free_memory() { malloc_trim(0); }

std::string instruction_set() { return at::get_cpu_capability(); }

std::string torch_version() { return TORCH_VERSION; }

}  // namespace trireme
