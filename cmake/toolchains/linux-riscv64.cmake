# SPDX-License-Identifier: MIT
# 64-bit RISC-V.
set(CMAKE_SYSTEM_PROCESSOR riscv64)
set(mi_triple riscv64-linux-gnu)
set(mi_qemu qemu-riscv64)
include("${CMAKE_CURRENT_LIST_DIR}/linux-cross.cmake")
# gcc before 13 calls a library for atomic bytes; whoever links mimalloc.o needs it, too.
set(CMAKE_C_STANDARD_LIBRARIES -latomic)
set(CMAKE_CXX_STANDARD_LIBRARIES -latomic)
