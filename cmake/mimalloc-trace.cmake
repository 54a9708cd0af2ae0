# SPDX-License-Identifier: MIT
# The compiled parts of mimalloc-trace: recorder, packer and replayer. They use nothing of the library.
# The recorder serves by the C library's own functions, which it finds as glibc's.
include(CheckSymbolExists)
set(mi_trace OFF)
if(mi_is_top AND CMAKE_SYSTEM_NAME STREQUAL "Linux" AND CMAKE_SIZEOF_VOID_P EQUAL 8)
  check_symbol_exists(__GLIBC__ features.h MI_HAVE_GLIBC)
  set(mi_trace ${MI_HAVE_GLIBC})
endif()
if(NOT mi_trace)
  return()
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
add_library(mimalloc-trace-record SHARED trace/record.c trace/real.c)
add_executable(mimalloc-trace-pack trace/pack.c)
add_executable(mimalloc-trace-replay trace/replay.c trace/load.c)
foreach(part IN ITEMS mimalloc-trace-record mimalloc-trace-pack mimalloc-trace-replay)
  # A compiler that knows malloc would leave out calls whose block it sees unused.
  target_compile_options(${part} PRIVATE -std=gnu11 -O2 -Wall -Wextra -Wpedantic -fno-builtin
    $<$<BOOL:${MI_WERROR}>:-Werror>)
  target_link_libraries(${part} PRIVATE Threads::Threads)
endforeach()
set_target_properties(mimalloc-trace-record PROPERTIES C_VISIBILITY_PRESET hidden)
target_link_libraries(mimalloc-trace-record PRIVATE ${CMAKE_DL_LIBS})
# It has to see the first allocations of all other libraries.
target_link_options(mimalloc-trace-record PRIVATE -Wl,-z,initfirst)

set(mi_install_trace "${CMAKE_INSTALL_LIBDIR}/mimalloc-${mi_version}/trace")
install(TARGETS mimalloc-trace-record mimalloc-trace-pack mimalloc-trace-replay
        LIBRARY DESTINATION "${mi_install_trace}" COMPONENT devel
        RUNTIME DESTINATION "${mi_install_trace}" COMPONENT devel)
install(PROGRAMS trace/mimalloc-trace DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT devel)
install(DIRECTORY trace/mimalloc_trace
        DESTINATION "${CMAKE_INSTALL_DATADIR}/mimalloc${mi_version_suffix}/trace" COMPONENT devel
        FILES_MATCHING PATTERN "*.py")
