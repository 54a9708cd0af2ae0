# SPDX-License-Identifier: MIT
# POWER, little-endian; systems have OS pages of 64 KiB.
set(CMAKE_SYSTEM_PROCESSOR ppc64le)
set(mi_triple powerpc64le-linux-gnu)
set(mi_qemu qemu-ppc64le)
include("${CMAKE_CURRENT_LIST_DIR}/linux-cross.cmake")
