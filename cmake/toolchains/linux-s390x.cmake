# SPDX-License-Identifier: MIT
# IBM Z: big-endian.
set(CMAKE_SYSTEM_PROCESSOR s390x)
set(mi_triple s390x-linux-gnu)
set(mi_qemu qemu-s390x)
include("${CMAKE_CURRENT_LIST_DIR}/linux-cross.cmake")
