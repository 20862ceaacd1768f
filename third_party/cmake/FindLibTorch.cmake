# SPDX-License-Identifier: Apache-2.0
# LibTorch for the CPU: libtorch_cpu and libc10 alone, from TRIREME_TORCH_DIR. The wheel's own TorchConfig.cmake is not
# used: it stops where no CUDA toolkit is found. Defines LibTorch::LibTorch and LibTorch_VERSION.
include(FindPackageHandleStandardArgs)
set(_torch "${TRIREME_TORCH_DIR}")
if(NOT "${LibTorch_SEARCHED}" STREQUAL "${_torch}")  # what was found in another folder is void
  unset(LibTorch_INCLUDE_DIR CACHE)
  unset(LibTorch_CPU_LIBRARY CACHE)
  unset(LibTorch_C10_LIBRARY CACHE)
  set(LibTorch_SEARCHED "${_torch}" CACHE INTERNAL "")
endif()
find_path(LibTorch_INCLUDE_DIR ATen/core/Tensor.h PATHS "${_torch}/include" NO_DEFAULT_PATH)
find_library(LibTorch_CPU_LIBRARY torch_cpu PATHS "${_torch}/lib" NO_DEFAULT_PATH)
find_library(LibTorch_C10_LIBRARY c10 PATHS "${_torch}/lib" NO_DEFAULT_PATH)
if(LibTorch_INCLUDE_DIR)
  file(STRINGS "${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h" _lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9]+([0-9]+)[^0-9]+([0-9]+)[^0-9]+([0-9]+).*" "\\1.\\2.\\3" LibTorch_VERSION "${_lines}")
endif()
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_INCLUDE_DIR
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "Looked in '${_torch}'. scripts/setup installs it there, -DTRIREME_TORCH_DIR=DIR names your own.")
mark_as_advanced(LibTorch_INCLUDE_DIR LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY)
if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE
    "${LibTorch_INCLUDE_DIR}" "${LibTorch_INCLUDE_DIR}/torch/csrc/api/include")
  target_link_libraries(LibTorch::LibTorch INTERFACE "${LibTorch_CPU_LIBRARY}" "${LibTorch_C10_LIBRARY}")
endif()
