# SPDX-License-Identifier: MIT
# Builds for 64-bit Windows with mingw-w64's gcc, and runs the tests under wine:
#
#   cmake -S . -B out/windows-x86_64 -DCMAKE_BUILD_TYPE=Release \
#         -DCMAKE_TOOLCHAIN_FILE=cmake/toolchains/windows-x86_64.cmake
#   cmake --build out/windows-x86_64 -j2
#   ctest --test-dir out/windows-x86_64 --output-on-failure
#
# needs (Debian, Ubuntu): apt-get install mingw-w64 wine64 wine
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)

# Those with POSIX threads, which the tests are written for.
foreach(flavour IN ITEMS "-posix" "")
  find_program(mi_mingw_gcc${flavour} "x86_64-w64-mingw32-gcc${flavour}")
  find_program(mi_mingw_gxx${flavour} "x86_64-w64-mingw32-g++${flavour}")
  if(mi_mingw_gcc${flavour} AND NOT CMAKE_C_COMPILER)
    set(CMAKE_C_COMPILER "${mi_mingw_gcc${flavour}}")
    set(CMAKE_CXX_COMPILER "${mi_mingw_gxx${flavour}}")
  endif()
endforeach()
set(CMAKE_RC_COMPILER x86_64-w64-mingw32-windres)

# Programs that need no DLL of the compiler's.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-static")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-static-libgcc")

set(CMAKE_FIND_ROOT_PATH /usr/x86_64-w64-mingw32)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# WINEPREFIX may name another folder for wine's files than the home folder.
set(CMAKE_CROSSCOMPILING_EMULATOR env WINEDEBUG=-all wine)
