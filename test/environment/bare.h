// SPDX-License-Identifier: MIT
// Included before load.c and steps.c: their calls go to the library as it is built for programs
// without a C library. The program has one, of which the library knows nothing: it finds the ends
// of threads and forks by itself.
#ifndef BARE_H
#define BARE_H

#include <errno.h>
#include <malloc.h>
#include <mimalloc.h>
#include <stdlib.h>

static inline __attribute__((unused)) int bare_memalign(void** p, size_t alignment, size_t size) {
  *p = mi_malloc_aligned(size, alignment);
  return *p == NULL ? ENOMEM : 0;
}

static inline __attribute__((unused)) int bare_trim(size_t keep) {
  mi_collect(keep == 0);
  return 1;
}

#define malloc(n) mi_malloc(n)
#define calloc(c, n) mi_calloc(c, n)
#define realloc(p, n) mi_realloc(p, n)
#define free(p) mi_free(p)
#define aligned_alloc(a, n) mi_malloc_aligned(n, a)
#define posix_memalign(p, a, n) bare_memalign(p, a, n)
#define malloc_trim(n) bare_trim(n)

#endif
