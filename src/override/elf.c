// SPDX-License-Identifier: MIT
// Owns the allocation functions of C libraries on ELF systems: a program and its libraries call
// malloc by this name, and the linker or the loader leads them here.
//
// malloc, calloc and free are the fast path itself. The others are their mi_ namesakes. Beside the
// standards' names stand those of glibc, the BSDs, macOS and Windows, since programs that were
// written for one system are run on another.
#include "override.h"

#if MX_OVERRIDE_ELF

#include <string.h>

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
MX_EXPORT size_t memalignment(const void* p) MX_NOTHROW;
MX_EXPORT_TEXT char* strdup(const char* s) MX_NOTHROW;
MX_EXPORT_TEXT char* strndup(const char* s, size_t n) MX_NOTHROW;

void* malloc(size_t size) MX_NOTHROW { return mx_alloc(size); }

void* calloc(size_t count, size_t size) MX_NOTHROW {
  return mx_calloc_in(mx_tls_theap, count, size);
}

void free(void* p) MX_NOTHROW { mx_free(p); }

void* realloc(void* p, size_t size) MX_NOTHROW { return mi_realloc(p, size); }

void* aligned_alloc(size_t alignment, size_t size) MX_NOTHROW {
  return mi_aligned_alloc(alignment, size);
}

void free_sized(void* p, size_t size) MX_NOTHROW {
  mx_free_checked("free_sized", p, size, MX_ANY_ALIGN);
}

void free_aligned_sized(void* p, size_t alignment, size_t size) MX_NOTHROW {
  mx_free_checked("free_aligned_sized", p, size, alignment);
}

size_t memalignment(const void* p) MX_NOTHROW { return mi_memalignment(p); }

char* strdup(const char* s) MX_NOTHROW { return mi_strdup(s); }

char* strndup(const char* s, size_t n) MX_NOTHROW { return mi_strndup(s, n); }

// ---- POSIX, glibc, the BSDs --------------------------------------------------------------------

MX_EXPORT int posix_memalign(void** p, size_t alignment, size_t size) MX_NOTHROW;
MX_EXPORT void* memalign(size_t alignment, size_t size) MX_NOTHROW;
MX_EXPORT void* valloc(size_t size) MX_NOTHROW;
MX_EXPORT void* pvalloc(size_t size) MX_NOTHROW;
MX_EXPORT void* reallocarray(void* p, size_t count, size_t size) MX_NOTHROW;
// Weak, because NetBSD's programs may bring their own.
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
  return mi_reallocn(p, count, size);
}

int reallocarr(void* ptrp, size_t count, size_t size) { return mi_reallocarr(ptrp, count, size); }

void* reallocf(void* p, size_t size) { return mi_reallocf(p, size); }

void cfree(void* p) MX_NOTHROW { mi_cfree(p); }

void vfree(void* p) { mx_free(p); }

// ---- sizes: glibc, FreeBSD, macOS --------------------------------------------------------------

// Android and FreeBSD have a const parameter here; for the linker that makes no difference.
MX_EXPORT size_t malloc_usable_size(void* p) MX_NOTHROW;
MX_EXPORT size_t malloc_size(const void* p);
MX_EXPORT size_t malloc_good_size(size_t size);

size_t malloc_usable_size(void* p) MX_NOTHROW { return mx_usable_size(p); }

size_t malloc_size(const void* p) { return mx_usable_size(p); }

size_t malloc_good_size(size_t size) { return mi_good_size(size); }

// ---- Windows -----------------------------------------------------------------------------------

MX_EXPORT void* _aligned_malloc(size_t size, size_t alignment);

void* _aligned_malloc(size_t size, size_t alignment) { return mi_malloc_aligned(size, alignment); }

#endif
