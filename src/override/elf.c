// SPDX-License-Identifier: MIT
// The allocation functions of C libraries on ELF systems: a program and its libraries call
// malloc by this name, and the linker or the loader leads them here.
//
// malloc, calloc and free are the fast path itself. The others are their mi_ namesakes, as long as
// malloc and free are the library's: a program may have its own, which go before. Beside the
// standards' names stand those of glibc, the BSDs, macOS and Windows, since programs that were
// written for one system are run on another. What the C library itself makes of malloc is its own.
#include "override.h"

#if MX_OVERRIDE_ELF

#include <errno.h>
#include <string.h>

#include "../alloc/verify.h"
#include "../api/sized.h"

// Some C libraries have macros of these names.
#undef strdup
#undef strndup

// ---- ISO C -------------------------------------------------------------------------------------

MX_EXPORT void* malloc(size_t size) MX_NOTHROW;
MX_EXPORT void* calloc(size_t count, size_t size) MX_NOTHROW;
MX_EXPORT void* realloc(void* p, size_t size) MX_NOTHROW;
MX_EXPORT void free(void* p) MX_NOTHROW;
MX_EXPORT void* aligned_alloc(size_t alignment, size_t size) MX_NOTHROW;
MX_EXPORT void free_sized(void* p, size_t size) MX_NOTHROW;
MX_EXPORT void free_aligned_sized(void* p, size_t alignment, size_t size) MX_NOTHROW;
MX_EXPORT size_t memalignment(const void* p);  // as glibc declares it
MX_OWN_NAME(mx_own_malloc, void*, malloc, (size_t size))
MX_OWN_NAME(mx_own_free, void, free, (void* p))

void* malloc(size_t size) MX_NOTHROW { return mx_alloc(size); }

void* calloc(size_t count, size_t size) MX_NOTHROW {
  return mx_calloc(count, size);
}

void free(void* p) MX_NOTHROW { mx_free(p); }

void* realloc(void* p, size_t size) MX_NOTHROW { return mi_realloc(p, size); }

void* aligned_alloc(size_t alignment, size_t size) MX_NOTHROW {
  return mi_aligned_alloc(alignment, size);
}

MX_BOUND mx_bound_t mx_bound = {malloc, aligned_alloc, realloc, free};

mx_used static const bool* const atfork_anchor = &mx_orders_forks;

bool mx_owns_malloc(void) { return MX_IS_OWN(mx_bound.allocate, mx_own_malloc); }

bool mx_owns_free(void) { return MX_IS_OWN(mx_bound.release, mx_own_free); }

void free_sized(void* p, size_t size) MX_NOTHROW {
  if (mx_owns_free()) mx_free_checked("free_sized", p, size, MX_ANY_ALIGN);
  else mx_bound.release(p);
}

mx_cold void free_aligned_sized(void* p, size_t alignment, size_t size) MX_NOTHROW {
  if (mx_owns_free()) mx_free_checked("free_aligned_sized", p, size, alignment);
  else mx_bound.release(p);
}

size_t memalignment(const void* p) { return mi_memalignment(p); }

// ---- POSIX, glibc, the BSDs --------------------------------------------------------------------

MX_EXPORT int posix_memalign(void** p, size_t alignment, size_t size) MX_NOTHROW;
MX_EXPORT void* memalign(size_t alignment, size_t size) MX_NOTHROW;
MX_EXPORT void* valloc(size_t size) MX_NOTHROW;
MX_EXPORT void* pvalloc(size_t size) MX_NOTHROW;
// Weak, because programs may bring their own. The C library's reallocarray would do, but libraries
// with a malloc that stands behind ours, such as the sanitizers' run-times, have one as well.
MX_EXPORT __attribute__((weak)) void* reallocarray(void* p, size_t count,
                                                   size_t size) MX_NOTHROW;
MX_EXPORT __attribute__((weak)) int reallocarr(void* ptrp, size_t count, size_t size);
MX_EXPORT void* reallocf(void* p, size_t size);
MX_EXPORT void cfree(void* p) MX_NOTHROW;
MX_EXPORT void vfree(void* p);

int posix_memalign(void** p, size_t alignment, size_t size) MX_NOTHROW {
  return mi_posix_memalign(p, alignment, size);
}

void* memalign(size_t alignment, size_t size) MX_NOTHROW { return mi_memalign(alignment, size); }

void* valloc(size_t size) MX_NOTHROW { return mi_valloc(size); }

void* pvalloc(size_t size) MX_NOTHROW { return mi_pvalloc(size); }

// glibc and OpenBSD set ENOMEM for a product that overflows, unlike mi_reallocarray.
void* reallocarray(void* p, size_t count, size_t size) MX_NOTHROW {
  size_t total;
  if (mx_mul_overflow(count, size, &total)) {
    errno = ENOMEM;
    return NULL;
  }
  return mx_bound.resize(p, total);
}

mx_cold static int resize_by_name(void* ptrp, size_t count, size_t size) {
  size_t total;
  if (ptrp == NULL || size == 0) return errno = EINVAL;
  if (mx_mul_overflow(count, size, &total)) return errno = EOVERFLOW;
  void *p, *q = NULL;
  memcpy(&p, ptrp, sizeof(p));
  if (count == 0) mx_bound.release(p);
  else if ((q = mx_bound.resize(p, total)) == NULL) return errno = ENOMEM;
  memcpy(ptrp, &q, sizeof(q));
  return 0;
}

mx_cold int reallocarr(void* ptrp, size_t count, size_t size) {
  return mx_owns_malloc() ? mi_reallocarr(ptrp, count, size) : resize_by_name(ptrp, count, size);
}

mx_cold void* reallocf(void* p, size_t size) {
  if (mx_owns_malloc()) return mi_reallocf(p, size);
  void* const q = mx_bound.resize(p, size);
  if (q == NULL && size != 0) mx_bound.release(p);
  return q;
}

void cfree(void* p) MX_NOTHROW {
  if (mx_owns_free()) mi_cfree(p);
  else mx_bound.release(p);
}

void vfree(void* p) { mx_bound.release(p); }

// ---- sizes: glibc, FreeBSD, macOS --------------------------------------------------------------

// Android and FreeBSD have a const parameter here; for the linker that makes no difference.
MX_EXPORT size_t malloc_usable_size(void* p) MX_NOTHROW;
MX_EXPORT size_t malloc_size(const void* p);
MX_EXPORT size_t malloc_good_size(size_t size);

size_t malloc_usable_size(void* p) MX_NOTHROW {
  return mx_usable_of_block("malloc_usable_size", p);
}

size_t malloc_size(const void* p) { return mi_malloc_size(p); }

size_t malloc_good_size(size_t size) { return mi_good_size(size); }

// ---- Windows -----------------------------------------------------------------------------------

MX_EXPORT void* _aligned_malloc(size_t size, size_t alignment);

void* _aligned_malloc(size_t size, size_t alignment) {
  if (mx_owns_malloc()) return mi_malloc_aligned(size, alignment);
  return mx_bound.allocate_aligned(alignment, size);
}

// ---- what other C libraries may not make of malloc ---------------------------------------------

// glibc and musl have these, which call malloc by name. The libc of WebAssembly may bring strdup
// along, whose parts cannot be told apart.
#if !defined(__linux__) || defined(__ANDROID__)
#if defined(__wasm__)
#define EXPORT_TEXT MX_EXTERN_C __attribute__((weak, visibility("default")))
#else
#define EXPORT_TEXT MX_EXPORT
#endif

EXPORT_TEXT char* strdup(const char* s) MX_NOTHROW;
EXPORT_TEXT char* strndup(const char* s, size_t n) MX_NOTHROW;

static char* copy_of(const char* s, size_t length) {
  char* const copy = (char*)mx_bound.allocate(length + 1);
  if (copy == NULL) return NULL;
  memcpy(copy, s, length);
  copy[length] = 0;
  return copy;
}

char* strdup(const char* s) MX_NOTHROW { return copy_of(s, strlen(s)); }

char* strndup(const char* s, size_t n) MX_NOTHROW {
  const char* const end = (const char*)memchr(s, 0, n);
  return copy_of(s, end != NULL ? (size_t)(end - s) : n);
}
#endif

#endif
