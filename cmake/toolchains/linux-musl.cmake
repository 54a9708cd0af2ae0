# SPDX-License-Identifier: MIT
# Linux with musl instead of glibc, by the musl-gcc of musl-tools. It compiles C only.
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_CXX_COMPILER "")
set(MI_LIBC_MUSL ON CACHE BOOL "The C library is musl")
