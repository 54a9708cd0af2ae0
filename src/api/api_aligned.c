// SPDX-License-Identifier: MIT
// The aligned calls, from the calling thread's default heap. The alignment follows the size;
// `_at` aligns byte `offset` of the block. What is refused, and with which errno, verbs.h says.
#include "verbs.h"

// ---- allocating --------------------------------------------------------------------------------

void* mi_malloc_aligned(size_t size, size_t alignment) mi_attr_noexcept {
  return mx_verb_aligned(mx_tls_theap, size, alignment, 0, false);
}

void* mi_malloc_aligned_at(size_t size, size_t alignment, size_t offset) mi_attr_noexcept {
  return mx_verb_aligned(mx_tls_theap, size, alignment, offset, false);
}

void* mi_zalloc_aligned(size_t size, size_t alignment) mi_attr_noexcept {
  return mx_verb_aligned(mx_tls_theap, size, alignment, 0, true);
}

void* mi_zalloc_aligned_at(size_t size, size_t alignment, size_t offset) mi_attr_noexcept {
  return mx_verb_aligned(mx_tls_theap, size, alignment, offset, true);
}

void* mi_calloc_aligned(size_t count, size_t size, size_t alignment) mi_attr_noexcept {
  return mi_zalloc_aligned_at(mx_verb_product(count, size), alignment, 0);
}

void* mi_calloc_aligned_at(size_t count, size_t size, size_t alignment,
                           size_t offset) mi_attr_noexcept {
  return mi_zalloc_aligned_at(mx_verb_product(count, size), alignment, offset);
}

// ---- resizing ----------------------------------------------------------------------------------

void* mi_realloc_aligned(void* p, size_t newsize, size_t alignment) mi_attr_noexcept {
  return mx_verb_realloc_aligned(mx_tls_theap, p, newsize, alignment, 0, false);
}

void* mi_realloc_aligned_at(void* p, size_t newsize, size_t alignment,
                            size_t offset) mi_attr_noexcept {
  return mx_verb_realloc_aligned(mx_tls_theap, p, newsize, alignment, offset, false);
}

void* mi_rezalloc_aligned(void* p, size_t newsize, size_t alignment) mi_attr_noexcept {
  return mx_verb_realloc_aligned(mx_tls_theap, p, newsize, alignment, 0, true);
}

void* mi_rezalloc_aligned_at(void* p, size_t newsize, size_t alignment,
                             size_t offset) mi_attr_noexcept {
  return mx_verb_realloc_aligned(mx_tls_theap, p, newsize, alignment, offset, true);
}

void* mi_recalloc_aligned(void* p, size_t newcount, size_t size,
                          size_t alignment) mi_attr_noexcept {
  return mi_rezalloc_aligned_at(p, mx_verb_product(newcount, size), alignment, 0);
}

void* mi_recalloc_aligned_at(void* p, size_t newcount, size_t size, size_t alignment,
                             size_t offset) mi_attr_noexcept {
  return mi_rezalloc_aligned_at(p, mx_verb_product(newcount, size), alignment, offset);
}
