# SPDX-License-Identifier: MIT
# The packages that `cpack` makes: libmimalloc3 and libmimalloc3-dev for Debian and Ubuntu,
# and an archive of the installed tree.
#
# The Debian packages can be installed beside the distribution's own: what both would install, the
# link for `-lmimalloc` and mimalloc.pc, moves to the version's folder and name first.
set(CPACK_PACKAGE_NAME mimalloc)
set(CPACK_PACKAGE_VENDOR "The mimalloc authors")
set(CPACK_PACKAGE_CONTACT "The mimalloc authors")
set(CPACK_PACKAGE_VERSION "${mi_version_full}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PROJECT_CONFIG_FILE "${CMAKE_CURRENT_LIST_DIR}/mimalloc-package-prefix.cmake")
set(CPACK_VERBATIM_VARIABLES ON)
string(TOLOWER "mimalloc${mi_suffix}-${mi_version_full}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}"
       CPACK_PACKAGE_FILE_NAME)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_COMPONENTS_ALL runtime devel)
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/mimalloc-package-beside.cmake")

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME "libmimalloc${mi_version_major}${mi_suffix}")
set(CPACK_DEBIAN_DEVEL_PACKAGE_NAME "libmimalloc${mi_version_major}${mi_suffix}-dev")
set(CPACK_DEBIAN_DEVEL_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVEL_PACKAGE_DEPENDS
    "libmimalloc${mi_version_major}${mi_suffix} (= ${mi_version_full})")
# What the script and its users read of this version.
set(CPACK_MI_VERSION "${mi_version}")
include(CPack)
