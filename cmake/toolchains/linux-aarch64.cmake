# SPDX-License-Identifier: MIT
# 64-bit ARM.
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(mi_triple aarch64-linux-gnu)
set(mi_qemu qemu-aarch64)
include("${CMAKE_CURRENT_LIST_DIR}/linux-cross.cmake")
