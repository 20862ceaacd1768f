# SPDX-License-Identifier: Apache-2.0
# `cmake --install`: headers, the two libraries, the trainer, and a package for
# find_package(Trireme). The tree may be moved afterwards. LibTorch is not copied: the package
# remembers where it lay at build time, -DTRIREME_TORCH_DIR overrides that.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Trireme")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/framework/include/"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(FILES "${PROJECT_SOURCE_DIR}/models/models.hpp"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/trireme")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/configs" DESTINATION "${CMAKE_INSTALL_DATADIR}/trireme")
# USE_LINK_PATH leaves out folders inside the source tree, where scripts/setup puts LibTorch.
set_target_properties(trainer PROPERTIES
  INSTALL_RPATH_USE_LINK_PATH ON INSTALL_RPATH "${TRIREME_TORCH_DIR}/lib")
install(TARGETS trireme trireme_models trainer EXPORT TriremeTargets)
install(EXPORT TriremeTargets NAMESPACE trireme:: DESTINATION "${package_dir}")

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/TriremeConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/TriremeConfig.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/TriremeConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/TriremeConfig.cmake"
  "${PROJECT_BINARY_DIR}/TriremeConfigVersion.cmake" DESTINATION "${package_dir}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/third_party/cmake/" DESTINATION "${package_dir}")
