// SPDX-License-Identifier: MIT
// A preload library that hands every call to the C library's own malloc.
//
// Debian links some servers (redis) against jemalloc under the plain names, so that "nothing
// preloaded" does not mean the system's malloc there. Preloading this does. The functions under
// the reserved names are exported by glibc for exactly such wrappers; malloc_usable_size has no
// such name and is fetched from the C library itself, since the next definition in search order
// would be jemalloc's.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

extern void* __libc_malloc(size_t size);
extern void __libc_free(void* block);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* block, size_t size);
extern void* __libc_memalign(size_t alignment, size_t size);
extern void* __libc_valloc(size_t size);
extern void* __libc_pvalloc(size_t size);

void* malloc(size_t size) { return __libc_malloc(size); }
void free(void* block) { __libc_free(block); }
void* calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void* realloc(void* block, size_t size) { return __libc_realloc(block, size); }
void* memalign(size_t alignment, size_t size) { return __libc_memalign(alignment, size); }
void* aligned_alloc(size_t alignment, size_t size) { return __libc_memalign(alignment, size); }
void* valloc(size_t size) { return __libc_valloc(size); }
void* pvalloc(size_t size) { return __libc_pvalloc(size); }

int posix_memalign(void** place, size_t alignment, size_t size) {
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0) {
    return EINVAL;
  }
  int saved = errno;
  void* block = __libc_memalign(alignment, size);
  errno = saved;
  if (block == NULL) return ENOMEM;
  *place = block;
  return 0;
}

size_t malloc_usable_size(void* block) {
  // A word that two threads may both fill, with the same value.
  static size_t (*volatile system_usable_size)(void*);
  if (block == NULL) return 0;
  if (system_usable_size == NULL) {
    void* library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    void* symbol = library == NULL ? NULL : dlsym(library, "malloc_usable_size");
    if (symbol == NULL) {
      static const char text[] = "system-malloc: no malloc_usable_size in the C library\n";
      ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
      (void)written;
      abort();
    }
    system_usable_size = (size_t(*)(void*))(uintptr_t)symbol;
  }
  return system_usable_size(block);
}
