# SPDX-License-Identifier: MIT
# 32-bit x86. A 64-bit system runs its programs, given the 32-bit libraries.
set(CMAKE_SYSTEM_PROCESSOR i686)
set(mi_triple i686-linux-gnu)
set(mi_qemu "")
include("${CMAKE_CURRENT_LIST_DIR}/linux-cross.cmake")
