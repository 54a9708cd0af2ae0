# SPDX-License-Identifier: MIT
# A toolchain file: the newest clang that is installed, by whichever name.
set(names clang)
foreach(version RANGE 30 12 -1)
  list(APPEND names clang-${version})
endforeach()
list(TRANSFORM names REPLACE "clang" "clang++" OUTPUT_VARIABLE names_cxx)
find_program(MI_CLANG NAMES ${names} REQUIRED)
find_program(MI_CLANGXX NAMES ${names_cxx})
set(CMAKE_C_COMPILER "${MI_CLANG}")
if(MI_CLANGXX)
  set(CMAKE_CXX_COMPILER "${MI_CLANGXX}")
endif()
