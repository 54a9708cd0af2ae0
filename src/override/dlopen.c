// SPDX-License-Identifier: MIT
// Dlopen, for the option `ignore_deepbind`: opened without the flag RTLD_DEEPBIND, a library
// finds the malloc that the program has, and not the C library's.
//
// The C library learns from the return address which module calls: whose RUNPATH and $ORIGIN hold,
// and to which namespace the library goes. So its dlopen is jumped to and never called; compilers
// that instrument functions do not jump.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#include "override.h"

// Only a shared library stands in front of dlopen: an object in a program would be all there is.
// Other processors than these need the caller's frame after a jump through a pointer.
#if MX_OVERRIDE_ELF && defined(MI_SHARED_LIB_EXPORT) && defined(__linux__) &&          \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&                 \
    (defined(__x86_64__) || defined(__i386__) || defined(__aarch64__) ||               \
     defined(__arm__) || defined(__riscv) || defined(__s390x__))
#include <dlfcn.h>
#endif

#if defined(RTLD_DEEPBIND) && defined(__GLIBC__)

#include <string.h>

#pragma weak dlsym

// clang jumps where it is told to, also without optimisation; gcc as part of the optimisation.
#if defined(__clang__)
#define JUMPS
#define JUMP_TO __attribute__((musttail)) return
#else
#define JUMPS __attribute__((optimize("O2")))
#define JUMP_TO return
#endif

typedef void* dlopen_fn(const char* file, int mode);

static mx_noinline dlopen_fn* next_dlopen(void) {
  dlopen_fn* next = NULL;
  void* const found = (dlsym == NULL ? NULL : dlsym(RTLD_NEXT, "dlopen"));
  memcpy(&next, &found, sizeof(next));
  return next;
}

static mx_noinline int mode_for(int mode) {
  return (mode & RTLD_DEEPBIND) != 0 && mi_option_is_enabled(mi_option_ignore_deepbind)
             ? mode & ~RTLD_DEEPBIND : mode;
}

// By another name, as the header's dlopen throws nothing: what C++ would have to look after when it
// is left leaves clang no room for a jump.
MX_EXPORT void* mx_dlopen(const char* file, int mode) __asm__("dlopen");

JUMPS void* mx_dlopen(const char* file, int mode) {
  dlopen_fn* const next = next_dlopen();
  if (next == NULL) return NULL;
  JUMP_TO next(file, mode_for(mode));
}

#endif
