# SPDX-License-Identifier: MIT
# When the functions are found that the library calls of others.
#
# To be found at its first call one takes 2 KiB of stack, which a coroutine or a signal's handler
# may not have. So those that malloc and free call are known from the start, which takes 13,000
# instructions more. In hardened builds all are, so that no table of functions stays writable.
if(NOT UNIX OR APPLE OR EMSCRIPTEN)
  return()
endif()

if(MI_SECURE)
  list(APPEND mi_ldflags -Wl,-z,relro -Wl,-z,now)
  return()
endif()

include(CheckCCompilerFlag)
check_c_compiler_flag(-fno-plt MI_HAVE_NO_PLT)
if(MI_HAVE_NO_PLT)
  foreach(source IN LISTS mi_sources)
    if(source MATCHES "/alloc/|/mem/vmem[.]c|/os/(libc|linux|unix_thread)[.]c")
      set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_OPTIONS -fno-plt)
    endif()
  endforeach()
endif()
