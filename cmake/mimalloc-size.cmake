# SPDX-License-Identifier: MIT
# How a release is kept small: its text is memory that every program pays for which preloads it.
#
# Measured with gcc 12 on x86-64, as `size` counts text: 187 KB with all of it at -O3; each step
# after the one before:
#   149 KB  the paths of single blocks at -O2, all else for size; in short runs benchmark programs
#           execute 7 % fewer to 7 % more instructions (thread-churn +6.6, mstress +4.7)
#   125 KB  unwind tables only where an exception or a stack trace passes: the operators new, the
#           calls of malloc and free, and what lies between them and the report of a bad block or
#           the functions for errors and deferred frees. A search for a fault begins with the
#           trace from abort, so hardened builds, which report everywhere, have all tables
#   114 KB  relative relocations in the packed form, where the C library reads it
#   111 KB  calls between the library's own functions are direct
# Of that, 85 KB were code and constants (docs/decisions.md has today's figures); the rest is the
# names of the public functions, what the linker needs to find them, and the tables.
if(MSVC)
  return()
endif()

# The last is more than a matter of size: with several copies of the library in a process, each
# calls itself and frees what is its own. The names of by-name.list are left out: a program may have
# functions of these names, which the library must call then (src/override/override.h).
if(NOT APPLE AND NOT WIN32)
  list(APPEND mi_ldflags -Wl,-Bsymbolic-functions
       "-Wl,--dynamic-list=${CMAKE_CURRENT_LIST_DIR}/by-name.list")
endif()

if(NOT mi_sanitize AND NOT MI_USE_CXX)
  include(CheckCCompilerFlag)
  check_c_compiler_flag(-Oz MI_HAVE_OZ)
  set(small -Os)
  if(MI_HAVE_OZ)
    set(small -Oz)
  endif()
  # No room in front of what is jumped to: it is code that seldom loops. What would be computed ahead
  # of a loop, or kept in a register over a call, is saved and restored instead.
  set(unpadded)
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    set(unpadded -fno-align-jumps -fno-align-labels -fno-align-loops)
    list(APPEND small -fno-move-loop-invariants -fno-caller-saves)
  endif()
  foreach(source IN LISTS mi_sources)
    if(source MATCHES "/alloc/(free|free_into|harden|realloc|slow|spare)[.]c|/override/elf[.]c" OR
       source MATCHES "/mem/bitmap[.]c|/page/blocks[.]c|/heap/theap[.]c" OR
       (MI_SECURE AND source MATCHES "/(mem|arena|page|heap|alloc)/"))
      set(options -O2 ${unpadded})
      if(unpadded AND NOT source MATCHES "/override/")
        list(APPEND options -fno-align-functions)
      endif()
    else()
      set(options ${small})
    endif()
    if(NOT MI_SECURE AND
       source MATCHES "/(arena|base|mem|service)/|/host/(residence|unix_process|wish_signal)[.]c" AND
       NOT source MATCHES "/service/(log|stack|walk)[.]c")
      list(APPEND options -fno-asynchronous-unwind-tables)
    endif()
    set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS
                                "$<$<CONFIG:Release>:${options}>")
  endforeach()
endif()

# One mapping for code, constants and tables: each further one, and the OS pages on its borders, costs
# every start of a program. Secure builds do not make constants executable for that.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND NOT MI_SECURE)
  include(CheckCSourceCompiles)
  set(CMAKE_REQUIRED_LINK_OPTIONS -Wl,-z,noseparate-code)
  check_c_source_compiles("int main(void) { return 0; }" MI_HAVE_NOSEPARATE_CODE)
  unset(CMAKE_REQUIRED_LINK_OPTIONS)
  if(MI_HAVE_NOSEPARATE_CODE)
    list(APPEND mi_ldflags -Wl,-z,noseparate-code)
  endif()
endif()

# Known only by running a program that needs its relocations: older loaders ignore the packed ones.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND NOT CMAKE_CROSSCOMPILING AND NOT mi_sanitize)
  include(CheckCSourceRuns)
  set(CMAKE_REQUIRED_LINK_OPTIONS -pie -Wl,-z,pack-relative-relocs)
  set(CMAKE_REQUIRED_FLAGS -fPIE)
  check_c_source_runs("static int value = 7;
    int* volatile pointers[64] = {&value, &value, &value};
    int main(void) { return pointers[1] == &value && *pointers[2] == 7 ? 0 : 1; }"
    MI_HAVE_PACKED_RELOCATIONS)
  unset(CMAKE_REQUIRED_LINK_OPTIONS)
  unset(CMAKE_REQUIRED_FLAGS)
  if(MI_HAVE_PACKED_RELOCATIONS)
    list(APPEND mi_ldflags -Wl,-z,pack-relative-relocs)
  endif()
endif()
