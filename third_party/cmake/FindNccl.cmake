# SPDX-License-Identifier: Apache-2.0
# NCCL, header and library of one place: beside LibTorch (the wheels' nvidia/nccl), in the CUDA toolkit, or the
# system's. Wants LibTorch with component CUDA found before. Defines Nccl::Nccl and Nccl_VERSION.
include(FindPackageHandleStandardArgs)
set(_beside "${TRIREME_TORCH_DIR}/../nvidia/nccl")
if(NOT "${Nccl_SEARCHED}" STREQUAL "${_beside}")
  unset(Nccl_INCLUDE_DIR CACHE)
  unset(Nccl_LIBRARY CACHE)
  set(Nccl_SEARCHED "${_beside}" CACHE INTERNAL "")
endif()
find_path(Nccl_INCLUDE_DIR nccl.h PATHS "${_beside}/include" NO_DEFAULT_PATH)
find_library(Nccl_LIBRARY libnccl.so.2 PATHS "${_beside}/lib" NO_DEFAULT_PATH)
find_package(CUDAToolkit QUIET)
find_path(Nccl_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(Nccl_LIBRARY nccl HINTS "${CUDAToolkit_LIBRARY_DIR}")
if(Nccl_INCLUDE_DIR)
  file(STRINGS "${Nccl_INCLUDE_DIR}/nccl.h" _lines REGEX "define NCCL_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9]+([0-9]+)[^0-9]+([0-9]+)[^0-9]+([0-9]+).*" "\\1.\\2.\\3" Nccl_VERSION "${_lines}")
endif()
find_package_handle_standard_args(Nccl
  REQUIRED_VARS Nccl_LIBRARY Nccl_INCLUDE_DIR
  VERSION_VAR Nccl_VERSION
  REASON_FAILURE_MESSAGE "Looked in '${_beside}', the CUDA toolkit and the system. scripts/setup --cuda installs it.")
mark_as_advanced(Nccl_INCLUDE_DIR Nccl_LIBRARY)
if(Nccl_FOUND AND NOT TARGET Nccl::Nccl)
  add_library(Nccl::Nccl INTERFACE IMPORTED)
  target_include_directories(Nccl::Nccl SYSTEM INTERFACE
    "${LibTorch_CUDART_INCLUDE_DIR}" "${Nccl_INCLUDE_DIR}")  # the runtime's own first: a toolkit may be of another version
  target_link_libraries(Nccl::Nccl INTERFACE "${Nccl_LIBRARY}" LibTorch::CudaRuntime)
endif()
