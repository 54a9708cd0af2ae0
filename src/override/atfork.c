// SPDX-License-Identifier: MIT
// The registering of handlers for fork, so that the library's come before all others.
//
// What is registered first runs last before a fork. Between the library's handler and the fork it
// holds all its locks; another handler there might allocate, or wait for a thread that does.
// (The C library takes the locks of its own malloc as late.) Constructors of other libraries may
// register handlers before the library's own constructor runs, so whoever is first brings it along.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#include "override.h"

#if MX_OVERRIDE_ELF
const bool mx_orders_forks = true;
#endif

// In a static program musl's pthread_atfork is the program's own.
#if MX_OVERRIDE_ELF && defined(__linux__) && (defined(__GLIBC__) || defined(MI_SHARED_LIB_EXPORT))
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../api/process_life.h"
#include "../base/atomic.h"

#pragma weak dlsym

// In a static program there is none to find, and to look for it may allocate.
extern ElfW(Dyn) _DYNAMIC[];
#pragma weak _DYNAMIC

static bool needs_libraries(void) {
  if (_DYNAMIC == NULL) return false;
  for (const ElfW(Dyn)* entry = _DYNAMIC; entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_NEEDED) return true;
  }
  return false;
}

// What pthread_atfork calls in glibc, of which each program and library has one; in musl itself.
#if defined(__GLIBC__)
typedef int register_fn(void (*before)(void), void (*parent)(void), void (*child)(void),
                        void* module);
#define REGISTER_NAME "__register_atfork"
#else
typedef int register_fn(void (*before)(void), void (*parent)(void), void (*child)(void));
#define REGISTER_NAME "pthread_atfork"
#endif

// Looked up once, when the library registers its own: later a constructor may wait for this thread,
// under the loader's lock.
static mx_noinline register_fn* next_register(void) {
  static mx_at_start mx_atomic(void*) looked_up;
  register_fn* next = NULL;
  mx_process_watch_forks();
  void* found = mx_load_acquire(&looked_up);
  if (found == NULL && dlsym != NULL && needs_libraries()) {
    found = dlsym(RTLD_NEXT, REGISTER_NAME);
    mx_store_release(&looked_up, found);
  }
  memcpy(&next, &found, sizeof(next));
  return next;
}

#if defined(__GLIBC__)
// Weak, because a static program with fork has the C library's, which comes before.
MX_EXPORT __attribute__((weak)) register_fn __register_atfork;

int __register_atfork(void (*before)(void), void (*parent)(void), void (*child)(void),
                      void* module) {
  register_fn* const next = next_register();
  return next == NULL ? 0 : next(before, parent, child, module);
}
#else
MX_EXPORT register_fn pthread_atfork;

int pthread_atfork(void (*before)(void), void (*parent)(void), void (*child)(void)) {
  register_fn* const next = next_register();
  return next == NULL ? 0 : next(before, parent, child);
}
#endif

#endif
