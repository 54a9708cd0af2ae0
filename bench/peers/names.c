// SPDX-License-Identifier: MIT
// The names that a peer of peers.py does not have by itself: those of malloc's family, where its own
// begin with PREFIX, and the operators of C++, of which the sized ones pass the size on to
// SIZED_DELETE where it has that.
#include <errno.h>
#include <stddef.h>

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)

#ifdef PREFIX
#define OF(name) JOIN(PREFIX, name)
void* OF(malloc)(size_t n);
void* OF(calloc)(size_t count, size_t n);
void* OF(realloc)(void* p, size_t n);
void OF(free)(void* p);
void* OF(memalign)(size_t alignment, size_t n);
void* OF(aligned_alloc)(size_t alignment, size_t n);
int OF(posix_memalign)(void** result, size_t alignment, size_t n);
size_t OF(malloc_usable_size)(void* p);

void* malloc(size_t n) { return OF(malloc)(n); }
void* calloc(size_t count, size_t n) { return OF(calloc)(count, n); }
void* realloc(void* p, size_t n) { return OF(realloc)(p, n); }
void free(void* p) { OF(free)(p); }
void* memalign(size_t alignment, size_t n) { return OF(memalign)(alignment, n); }
void* aligned_alloc(size_t alignment, size_t n) { return OF(aligned_alloc)(alignment, n); }
int posix_memalign(void** result, size_t alignment, size_t n) {
  return OF(posix_memalign)(result, alignment, n);
}
size_t malloc_usable_size(void* p) { return OF(malloc_usable_size)(p); }
#else
void* malloc(size_t n);
void free(void* p);
void* aligned_alloc(size_t alignment, size_t n);
#endif

#ifdef SIZED_DELETE
void SIZED_DELETE(void* p, size_t n);
#else
#define SIZED_DELETE free_of_size
static void SIZED_DELETE(void* p, size_t n) {
  (void)n;
  free(p);
}
#endif

static void* must(void* p) {
  if (p == NULL) __builtin_trap();
  return p;
}

void* _Znwm(size_t n) { return must(malloc(n)); }
void* _Znam(size_t n) { return must(malloc(n)); }
void* _ZnwmSt11align_val_t(size_t n, size_t alignment) { return must(aligned_alloc(alignment, n)); }
void* _ZnamSt11align_val_t(size_t n, size_t alignment) { return must(aligned_alloc(alignment, n)); }
void _ZdlPv(void* p) { free(p); }
void _ZdaPv(void* p) { free(p); }
void _ZdlPvm(void* p, size_t n) { SIZED_DELETE(p, n); }
void _ZdaPvm(void* p, size_t n) { SIZED_DELETE(p, n); }
