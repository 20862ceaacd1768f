# SPDX-License-Identifier: Apache-2.0
# LibTorch from TRIREME_TORCH_DIR: libtorch_cpu and libc10 alone; component CUDA: libtorch_cuda, libc10_cuda and the
# CUDA runtime, too. The wheel's own TorchConfig.cmake is not used: it stops where no CUDA toolkit is found. Defines
# LibTorch::LibTorch and LibTorch_VERSION; with CUDA LibTorch::CudaRuntime and LibTorch_CUDA_VERSION.
include(FindPackageHandleStandardArgs)
set(_torch "${TRIREME_TORCH_DIR}")
if(NOT "${LibTorch_SEARCHED}" STREQUAL "${_torch}")  # what was found in another folder is void
  foreach(_variable INCLUDE_DIR CPU_LIBRARY C10_LIBRARY CUDA_LIBRARY C10_CUDA_LIBRARY CUDART_LIBRARY CUDART_INCLUDE_DIR)
    unset(LibTorch_${_variable} CACHE)
  endforeach()
  set(LibTorch_SEARCHED "${_torch}" CACHE INTERNAL "")
endif()
find_path(LibTorch_INCLUDE_DIR ATen/core/Tensor.h PATHS "${_torch}/include" NO_DEFAULT_PATH)
find_library(LibTorch_CPU_LIBRARY torch_cpu PATHS "${_torch}/lib" NO_DEFAULT_PATH)
find_library(LibTorch_C10_LIBRARY c10 PATHS "${_torch}/lib" NO_DEFAULT_PATH)
if(LibTorch_INCLUDE_DIR)
  file(STRINGS "${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h" _lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9]+([0-9]+)[^0-9]+([0-9]+)[^0-9]+([0-9]+).*" "\\1.\\2.\\3" LibTorch_VERSION "${_lines}")
endif()
set(_required LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_INCLUDE_DIR)
set(_hint "Looked in '${_torch}'. scripts/setup installs it there, -DTRIREME_TORCH_DIR=DIR names your own.")
if("CUDA" IN_LIST LibTorch_FIND_COMPONENTS)
  # The runtime that LibTorch itself loads comes first: beside a wheel's torch/ lies nvidia/; else the toolkit's.
  find_package(CUDAToolkit QUIET)
  file(GLOB _wheels "${_torch}/../nvidia/cu[0-9]*" "${_torch}/../nvidia/cuda_runtime")
  find_path(LibTorch_CUDART_INCLUDE_DIR cuda_runtime_api.h PATHS ${_wheels} PATH_SUFFIXES include NO_DEFAULT_PATH)
  find_path(LibTorch_CUDART_INCLUDE_DIR cuda_runtime_api.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(LibTorch_CUDART_LIBRARY NAMES libcudart.so.13 libcudart.so.12 PATHS ${_wheels} PATH_SUFFIXES lib NO_DEFAULT_PATH)
  find_library(LibTorch_CUDART_LIBRARY NAMES cudart HINTS "${CUDAToolkit_LIBRARY_DIR}")
  find_library(LibTorch_CUDA_LIBRARY torch_cuda PATHS "${_torch}/lib" NO_DEFAULT_PATH)
  find_library(LibTorch_C10_CUDA_LIBRARY c10_cuda PATHS "${_torch}/lib" NO_DEFAULT_PATH)
  list(APPEND _required LibTorch_CUDA_LIBRARY LibTorch_C10_CUDA_LIBRARY LibTorch_CUDART_LIBRARY LibTorch_CUDART_INCLUDE_DIR)
  string(REPLACE "scripts/setup installs" "scripts/setup --cuda installs" _hint "${_hint}")
  if(LibTorch_CUDART_INCLUDE_DIR)
    file(STRINGS "${LibTorch_CUDART_INCLUDE_DIR}/cuda_runtime_api.h" _line REGEX "define CUDART_VERSION ")
    string(REGEX REPLACE "[^0-9]+([0-9]+)0([0-9])0.*" "\\1.\\2" LibTorch_CUDA_VERSION "${_line}")
  endif()
  if(LibTorch_CUDA_LIBRARY AND LibTorch_CUDART_LIBRARY)
    set(LibTorch_CUDA_FOUND TRUE)
  endif()
endif()
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS ${_required}
  VERSION_VAR LibTorch_VERSION
  HANDLE_COMPONENTS
  REASON_FAILURE_MESSAGE "${_hint}")
mark_as_advanced(LibTorch_INCLUDE_DIR LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_CUDA_LIBRARY
  LibTorch_C10_CUDA_LIBRARY LibTorch_CUDART_LIBRARY LibTorch_CUDART_INCLUDE_DIR)
if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE
    "${LibTorch_INCLUDE_DIR}" "${LibTorch_INCLUDE_DIR}/torch/csrc/api/include")
  target_link_libraries(LibTorch::LibTorch INTERFACE "${LibTorch_CPU_LIBRARY}" "${LibTorch_C10_LIBRARY}")
endif()
if(LibTorch_CUDA_FOUND AND NOT TARGET LibTorch::CudaRuntime)
  add_library(LibTorch::CudaRuntime INTERFACE IMPORTED)
  target_include_directories(LibTorch::CudaRuntime SYSTEM INTERFACE "${LibTorch_CUDART_INCLUDE_DIR}")
  target_link_libraries(LibTorch::CudaRuntime INTERFACE "${LibTorch_CUDART_LIBRARY}")
  # libtorch_cuda registers its kernels when it is loaded; nothing names a symbol of it. A machine that only compiles
  # may lack cuDNN and what else it wants.
  target_link_libraries(LibTorch::LibTorch INTERFACE
    "-Wl,--push-state,--no-as-needed" "${LibTorch_CUDA_LIBRARY}" "${LibTorch_C10_CUDA_LIBRARY}" "-Wl,--pop-state")
  target_link_options(LibTorch::LibTorch INTERFACE "LINKER:--allow-shlib-undefined")
endif()
