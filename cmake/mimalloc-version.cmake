# SPDX-License-Identifier: MIT
# The version: read from the public header, so that it is written down once.
file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/../include/mimalloc.h" mi_version_line
     REGEX "^#define MI_MALLOC_VERSION +[0-9]+")
if(NOT mi_version_line MATCHES "MI_MALLOC_VERSION +([0-9]+)")
  message(FATAL_ERROR "include/mimalloc.h does not say MI_MALLOC_VERSION")
endif()
set(mi_version_number ${CMAKE_MATCH_1})
math(EXPR mi_version_major "${mi_version_number} / 10000")
math(EXPR mi_version_minor "${mi_version_number} / 100 % 100")
math(EXPR mi_version_patch "${mi_version_number} % 100")
set(mi_version "${mi_version_major}.${mi_version_minor}")
set(mi_version_full "${mi_version}.${mi_version_patch}")
