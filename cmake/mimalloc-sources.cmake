# SPDX-License-Identifier: MIT
# Owns the list of the library's sources, floor by floor, lowest first.
set(mi_floors base os mem arena page heap alloc service api override)
set(mi_sources)
foreach(floor IN LISTS mi_floors)
  file(GLOB found CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/../src/${floor}/*.c")
  list(APPEND mi_sources ${found})
endforeach()
