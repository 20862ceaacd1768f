// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <nccl.h>

#include "comm/nccl.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

std::string dotted(int code) {  // NCCL_VERSION_CODE
  return std::to_string(code / 10000) + "." + std::to_string(code % 10000 / 100) + "." +
         std::to_string(code % 100);
}

// The file that holds the function.
std::string file_of(const void* function) {
  Dl_info info{};
  return dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

}  // namespace

NcclLibrary nccl_library() {
  NcclLibrary library;
  library.header = dotted(NCCL_VERSION_CODE);
  int running = 0;
  if (ncclGetVersion(&running) != ncclSuccess) throw EnvironmentError("ncclGetVersion failed");
  library.running = dotted(running);
  library.path = file_of(reinterpret_cast<const void*>(&ncclGetVersion));
  // dlsym on a library's handle searches what that library was linked with.
  void* torch = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  if (torch == nullptr) return library;
  if (void* function = dlsym(torch, "ncclGetVersion")) library.torch_path = file_of(function);
  dlclose(torch);
  return library;
}

}  // namespace trireme
