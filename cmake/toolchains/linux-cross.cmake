# SPDX-License-Identifier: MIT
# Included by the toolchain files of Linux on other processors: the cross compilers of Debian and
# Ubuntu, and qemu to run what they make. `mi_triple` names the first, `mi_qemu` the second; none
# where this machine runs such programs itself. With MI_TEST_GUEST they are for a machine of their own.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_C_COMPILER ${mi_triple}-gcc)
set(CMAKE_CXX_COMPILER ${mi_triple}-g++)
set(CMAKE_FIND_ROOT_PATH /usr/${mi_triple})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
if(mi_qemu AND NOT MI_TEST_GUEST)
  # By the name in Debian 12 and 13, or that after them.
  find_program(mi_emulator NAMES ${mi_qemu}-static ${mi_qemu})
  set(CMAKE_CROSSCOMPILING_EMULATOR ${mi_emulator};-L;/usr/${mi_triple})
endif()
