# SPDX-License-Identifier: MIT
# 32-bit ARM with hardware floating point.
set(CMAKE_SYSTEM_PROCESSOR arm)
set(mi_triple arm-linux-gnueabihf)
set(mi_qemu qemu-arm)
include("${CMAKE_CURRENT_LIST_DIR}/linux-cross.cmake")
