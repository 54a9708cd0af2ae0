// SPDX-License-Identifier: MIT
// Owns the malloc symbols of ELF systems: what a program and its libraries call, served by us.
#include <errno.h>
#include <stddef.h>

#include "../alloc/fast.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT void* malloc(size_t size);
EXPORT void free(void* p);
EXPORT void* calloc(size_t count, size_t size);
EXPORT void* realloc(void* p, size_t size);
EXPORT int posix_memalign(void** out, size_t align, size_t size);
EXPORT void* aligned_alloc(size_t align, size_t size);
EXPORT void* memalign(size_t align, size_t size);
EXPORT size_t malloc_usable_size(void* p);

void* malloc(size_t size) { return mx_alloc(size); }
void free(void* p) { mx_free(p); }

void* calloc(size_t count, size_t size) {
  size_t total;
  if (mx_unlikely(mx_mul_overflow(count, size, &total))) total = SIZE_MAX;
  return mx_zalloc_in(mx_tls_theap, total);
}

void* realloc(void* p, size_t size) {
  return mx_realloc_in(mx_tls_theap, p, size, 0, 0, false);
}

int posix_memalign(void** out, size_t align, size_t size) {
  if (!mx_is_pow2(align) || align % sizeof(void*) != 0) return EINVAL;
  const int saved = errno;
  void* p = mx_alloc_aligned(mx_tls_theap, size, align, 0, false);
  errno = saved;
  if (p == NULL) return ENOMEM;
  *out = p;
  return 0;
}

void* memalign(size_t align, size_t size) {
  return mx_alloc_aligned(mx_tls_theap, size, align, 0, false);
}

void* aligned_alloc(size_t align, size_t size) {
  return mx_alloc_aligned(mx_tls_theap, size, align, 0, false);
}

size_t malloc_usable_size(void* p) { return mx_usable_size(p); }
