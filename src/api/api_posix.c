// SPDX-License-Identifier: MIT
// The calls of POSIX, other C libraries, C23 and Windows under the prefix mi_, each with the
// argument order and the errors of its origin.
#include "../base/facts.h"
#include "../heap/thread_life.h"
#include "../os/libc.h"
#include "../service/walk.h"
#include "sized.h"
#include "verbs.h"

// ---- frees -------------------------------------------------------------------------------------

void mi_cfree(void* p) mi_attr_noexcept {
  if (mx_walk_page_of(mx_tag_strip(p)) != NULL) mx_free(p);
}

void mi_free_size(void* p, size_t size) mi_attr_noexcept {
  mx_free_checked("free_size", p, size, MX_ANY_ALIGN);
}

void mi_free_size_aligned(void* p, size_t size, size_t alignment) mi_attr_noexcept {
  mx_free_checked("free_size_aligned", p, size, alignment);
}

void mi_free_aligned(void* p, size_t alignment) mi_attr_noexcept {
  mx_free_checked("free_aligned", p, MX_ANY_SIZE, alignment);
}

void mi_free_sized(void* p, size_t size) mi_attr_noexcept {
  mx_free_checked("free_sized", p, size, MX_ANY_ALIGN);
}

void mi_free_aligned_sized(void* p, size_t alignment, size_t size) mi_attr_noexcept {
  mx_free_checked("free_aligned_sized", p, size, alignment);
}

// ---- sizes -------------------------------------------------------------------------------------

void* mi__expand(void* p, size_t newsize) mi_attr_noexcept {
  void* const q = mi_expand(p, newsize);
  if (q == NULL) errno = ENOMEM;
  return q;
}

// On its system this one is how a program asks whose a pointer is.
size_t mi_malloc_size(const void* p) mi_attr_noexcept {
  if (MX_KNOWS_LIVE && mx_walk_page_of(mx_tag_strip(p)) == NULL) return 0;
  return mx_usable_of_block("malloc_size", p);
}

size_t mi_malloc_usable_size(const void* p) mi_attr_noexcept {
  return mx_usable_of_block("malloc_usable_size", p);
}

size_t mi_malloc_good_size(size_t size) mi_attr_noexcept { return mi_good_size(size); }

size_t mi_memalignment(const void* p) mi_attr_noexcept {
  return (size_t)((uintptr_t)p & (0 - (uintptr_t)p));
}

// ---- aligned -----------------------------------------------------------------------------------

static mx_noinline int posix_memalign_slow(void** p, size_t alignment, size_t size) {
  if (p == NULL || alignment % sizeof(void*) != 0 || !mx_is_pow2(alignment)) return EINVAL;
  const int saved = errno;
  void* const block = mx_given(mx_alloc_aligned(mx_tls_theap, size, alignment, 0, false));
  errno = saved;
  if (block == NULL) return ENOMEM;
  *p = block;
  return 0;
}

// A block size that is a multiple of the alignment makes every block aligned, of any color.
int mi_posix_memalign(void** p, size_t alignment, size_t size) {
  const size_t mask = alignment - 1;
  const bool is_simple =
      (mask < MX_COLOR_STEP_MIN && (alignment & (mask | (sizeof(void*) - 1))) == 0);
  if (MX_HARDEN || mx_unlikely(!is_simple || p == NULL)) {
    return posix_memalign_slow(p, alignment, size);
  }
  void* const block = mx_alloc_quick((size + mask) & ~mask);
  if (mx_unlikely(block == NULL)) return posix_memalign_slow(p, alignment, size);
  *p = block;
  return 0;
}

void* mi_memalign(size_t alignment, size_t size) mi_attr_noexcept {
  return mx_verb_aligned(mx_tls_theap, size, alignment, 0, false);
}

void* mi_aligned_alloc(size_t alignment, size_t size) mi_attr_noexcept {
  return mx_verb_aligned(mx_tls_theap, size, alignment, 0, false);
}

static size_t size_of_os_page(void) {
  if (mx_unlikely(mx_facts.os_page == 0)) mx_heap_start();
  return mx_facts.os_page;
}

void* mi_valloc(size_t size) mi_attr_noexcept { return mi_memalign(size_of_os_page(), size); }

void* mi_pvalloc(size_t size) mi_attr_noexcept {
  const size_t page = size_of_os_page();
  return mi_memalign(page, size > MX_MAX_ALLOC ? size : mx_align_up(mx_max(size, 1), page));
}

// ---- arrays ------------------------------------------------------------------------------------

void* mi_reallocarray(void* p, size_t count, size_t size) mi_attr_noexcept {
  size_t total;
  if (mx_unlikely(mx_mul_overflow(count, size, &total))) {
    errno = EOVERFLOW;
    return NULL;
  }
  return mi_realloc(p, total);
}

static int refuse(int code) { return errno = code; }

// The pointer may be of any type, so it is read and written as bytes.
int mi_reallocarr(void* ptrp, size_t count, size_t size) mi_attr_noexcept {
  if (ptrp == NULL || size == 0) return refuse(EINVAL);
  size_t total;
  if (mx_mul_overflow(count, size, &total)) return refuse(EOVERFLOW);
  void* p;
  memcpy(&p, ptrp, sizeof(p));
  void* q = NULL;
  if (count == 0) {
    mx_free(p);
  } else {
    q = mi_realloc(p, total);
    if (q == NULL) return refuse(ENOMEM);
  }
  memcpy(ptrp, &q, sizeof(q));
  return 0;
}

void* mi_aligned_recalloc(void* p, size_t newcount, size_t size,
                          size_t alignment) mi_attr_noexcept {
  return mi_recalloc_aligned(p, newcount, size, alignment);
}

void* mi_aligned_offset_recalloc(void* p, size_t newcount, size_t size, size_t alignment,
                                 size_t offset) mi_attr_noexcept {
  return mi_recalloc_aligned_at(p, newcount, size, alignment, offset);
}

// ---- text --------------------------------------------------------------------------------------

int mi_dupenv_s(char** buf, size_t* size, const char* name) mi_attr_noexcept {
  if (buf == NULL || name == NULL) return EINVAL;
  if (size != NULL) *size = 0;
  *buf = NULL;
  const char* const value = getenv(name);
  if (value == NULL) return 0;
  *buf = mi_strdup(value);
  if (*buf == NULL) return ENOMEM;
  if (size != NULL) *size = strlen(value) + 1;
  return 0;
}

// No system but Windows has an environment of wide characters.
int mi_wdupenv_s(wchar_t** buf, size_t* size, const wchar_t* name) mi_attr_noexcept {
  if (buf != NULL) *buf = NULL;
  if (size != NULL) *size = 0;
  if (!MX_HAS_WIDE_ENVIRONMENT || buf == NULL || name == NULL) return EINVAL;
  const wchar_t* const value = mx_libc_wgetenv(name);
  if (value == NULL) return 0;
  *buf = mi_wcsdup(value);
  if (*buf == NULL) return ENOMEM;
  if (size != NULL) *size = wcslen(value) + 1;
  return 0;
}

wchar_t* mi_wcsdup(const wchar_t* s) mi_attr_noexcept {
  if (s == NULL) return NULL;
  const size_t bytes = (wcslen(s) + 1) * sizeof(wchar_t);
  wchar_t* const copy = (wchar_t*)mx_alloc(bytes);
  if (copy != NULL) memcpy(copy, s, bytes);
  return copy;
}

unsigned char* mi_mbsdup(const unsigned char* s) mi_attr_noexcept {
  return (unsigned char*)mi_strdup((const char*)s);
}
