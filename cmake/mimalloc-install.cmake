# SPDX-License-Identifier: MIT
# What `cmake --install` writes, and the packages.
#
# The shared library stands in the library folder itself, under its SONAME; all that belongs to one
# version (headers, archive, object file, CMake files) stands in folders named after the version,
# so that several versions live side by side. MI_INSTALL_TOPLEVEL drops the version folders.
include(CMakePackageConfigHelpers)

if(MI_INSTALL_TOPLEVEL)
  set(mi_version_dir "")
  set(mi_version_suffix "")
  set(mi_install_cmake "${CMAKE_INSTALL_LIBDIR}/cmake/mimalloc")
else()
  set(mi_version_dir "/mimalloc-${mi_version}")
  set(mi_version_suffix "-${mi_version}")
  set(mi_install_cmake "${CMAKE_INSTALL_LIBDIR}/cmake/mimalloc-${mi_version}")
endif()
set(mi_install_object "${CMAKE_INSTALL_LIBDIR}${mi_version_dir}")

# ---- the files --------------------------------------------------------------------------------

set(mi_exported)
if(MI_BUILD_SHARED)
  list(APPEND mi_exported mimalloc)
  install(TARGETS mimalloc EXPORT mimalloc
          RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT runtime
          LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime NAMELINK_COMPONENT devel
          ARCHIVE DESTINATION "${mi_install_object}" COMPONENT devel)
endif()
if(MI_BUILD_STATIC)
  list(APPEND mi_exported mimalloc-static)
  install(TARGETS mimalloc-static EXPORT mimalloc
          ARCHIVE DESTINATION "${mi_install_object}" COMPONENT devel)
endif()
if(MI_BUILD_OBJECT)
  install(FILES ${mi_object_files} DESTINATION "${mi_install_object}" COMPONENT devel)
endif()
install(FILES include/mimalloc.h include/mimalloc-override.h include/mimalloc-new-delete.h
              include/mimalloc-prof.h include/mimalloc-stats.h
        DESTINATION "${mi_install_include}" COMPONENT devel)
foreach(section IN ITEMS 3 7)
  install(FILES docs/man/mimalloc.${section}
          DESTINATION "${CMAKE_INSTALL_MANDIR}/man${section}" COMPONENT devel)
endforeach()

# What looks at a process from outside needs /proc.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  set(mi_install_inspect "${CMAKE_INSTALL_DATADIR}/mimalloc${mi_version_suffix}/inspect")
  install(PROGRAMS inspect/mimalloc-inspect
          DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT devel)
  install(DIRECTORY inspect/mimalloc_inspect DESTINATION "${mi_install_inspect}" COMPONENT devel
          FILES_MATCHING PATTERN "*.py")
  install(FILES inspect/mimalloc-gdb.py DESTINATION "${mi_install_inspect}" COMPONENT devel)
endif()

# ---- find_package -----------------------------------------------------------------------------

set(mi_config_dir "${CMAKE_CURRENT_BINARY_DIR}/cmake")
configure_package_config_file(cmake/mimalloc-config.cmake.in
  "${mi_config_dir}/mimalloc-config.cmake"
  INSTALL_DESTINATION "${mi_install_cmake}"
  PATH_VARS CMAKE_INSTALL_LIBDIR mi_install_object mi_install_include)
configure_file(cmake/mimalloc-config-version.cmake.in
  "${mi_config_dir}/mimalloc-config-version.cmake" @ONLY)
install(FILES "${mi_config_dir}/mimalloc-config.cmake"
              "${mi_config_dir}/mimalloc-config-version.cmake"
        DESTINATION "${mi_install_cmake}" COMPONENT devel)
if(mi_exported)
  install(EXPORT mimalloc FILE mimalloc.cmake DESTINATION "${mi_install_cmake}" COMPONENT devel)
endif()

# ---- pkg-config -------------------------------------------------------------------------------

# The prefix is told from where the file itself lies, so that the tree may be moved. Folders that
# the user gave as absolute paths stand in the file as they are.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(mi_pc_prefix "${CMAKE_INSTALL_PREFIX}")
else()
  file(RELATIVE_PATH mi_pc_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  string(REGEX REPLACE "/$" "" mi_pc_prefix "\${pcfiledir}/${mi_pc_prefix}")
endif()
foreach(dir IN ITEMS LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${dir}}")
    set(mi_pc_${dir} "${CMAKE_INSTALL_${dir}}")
  else()
    set(mi_pc_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
  endif()
endforeach()
set(mi_pc_libraries "")
foreach(library IN LISTS mi_libraries)
  if(library MATCHES "^-")
    string(APPEND mi_pc_libraries " ${library}")
  else()
    string(APPEND mi_pc_libraries " -l${library}")
  endif()
endforeach()
if(mi_version_dir)
  string(PREPEND mi_pc_libraries " -L\${archivedir}")
endif()
if(CMAKE_CONFIGURATION_TYPES)
  set(mi_pc_name "mimalloc")
else()
  set(mi_pc_name "mimalloc${mi_suffix}")
endif()
if(NOT MI_BUILD_SHARED)
  set(mi_pc_folder "\${archivedir}")
else()
  set(mi_pc_folder "\${libdir}")
endif()
configure_file(cmake/mimalloc.pc.in "${mi_config_dir}/mimalloc.pc" @ONLY)
install(FILES "${mi_config_dir}/mimalloc.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT devel)

# ---- packages ---------------------------------------------------------------------------------

if(mi_is_top)
  include("${CMAKE_CURRENT_LIST_DIR}/mimalloc-package.cmake")
endif()
