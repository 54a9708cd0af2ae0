// SPDX-License-Identifier: MIT
// The basic calls: those of ISO C, and what they lack (zeroed blocks, products, block sizes,
// zeroed reallocation), from the calling thread's default heap.
//
// mi_malloc, mi_calloc and mi_free are the fast path itself. errno is set where a request fails,
// far below, so that nothing follows the fast path.
#include "../base/facts.h"
#include "../heap/thread_life.h"
#include "verbs.h"

// ---- allocating and freeing --------------------------------------------------------------------

void* mi_malloc(size_t size) mi_attr_noexcept { return mx_alloc(size); }

void* mi_calloc(size_t count, size_t size) mi_attr_noexcept {
  return mx_calloc(count, size);
}

void mi_free(void* p) mi_attr_noexcept { mx_free(p); }

void* mi_zalloc(size_t size) mi_attr_noexcept { return mx_calloc(1, size); }

void* mi_mallocn(size_t count, size_t size) mi_attr_noexcept {
  return mx_alloc(mx_verb_product(count, size));
}

void* mi_malloc_small(size_t size) mi_attr_noexcept { return mx_alloc(size); }

void* mi_zalloc_small(size_t size) mi_attr_noexcept { return mi_zalloc(size); }

void mi_free_small(void* p) mi_attr_noexcept { mx_free(p); }

// ---- resizing ----------------------------------------------------------------------------------

void* mi_realloc(void* p, size_t newsize) mi_attr_noexcept {
  mx_theap_t* const theap = mx_tls_theap;
  if (!mx_has_tags() && mx_likely(mx_realloc_plain(theap, &p, newsize))) return p;
  return mx_verb_realloc(theap, p, newsize, false);
}

void* mi_reallocn(void* p, size_t count, size_t size) mi_attr_noexcept {
  return mx_verb_realloc_product(mx_tls_theap, p, count, size, false);
}

void* mi_reallocf(void* p, size_t newsize) mi_attr_noexcept {
  void* const q = mi_realloc(p, newsize);
  if (q == NULL) mx_free(p);
  return q;
}

void* mi_rezalloc(void* p, size_t newsize) mi_attr_noexcept {
  return mx_verb_realloc(mx_tls_theap, p, newsize, true);
}

void* mi_recalloc(void* p, size_t newcount, size_t size) mi_attr_noexcept {
  return mx_verb_realloc_product(mx_tls_theap, p, newcount, size, true);
}

// With padding the block's end is marked for the size that was asked for, and stays so.
void* mi_expand(void* p, size_t newsize) mi_attr_noexcept {
  if (mx_has_tags()) p = (void*)(uintptr_t)mx_tags_look("expand", p);
  if (MX_KNOWS_LIVE && !mx_verify_pointer("expand", p)) return NULL;
  if (MX_PADDING || p == NULL) return NULL;
  return newsize <= mx_usable_size(p) ? p : NULL;
}

// ---- sizes -------------------------------------------------------------------------------------

size_t mi_usable_size(const void* p) mi_attr_noexcept {
  return mx_usable_of_block("usable_size", p);
}

size_t mi_good_size(size_t size) mi_attr_noexcept {
  if (size > MX_MAX_ALLOC - MX_PAD) return size;
  if (mx_facts.os_page == 0) mx_heap_start();
  return mx_good_size(mx_max(size, 1) + MX_PAD, mx_facts.os_page) - MX_PAD;
}

// The size that a block has in its page; 0 when p leads to none.
static size_t block_size_of(const void* given) {
  const void* const p = mx_tag_strip(given);
  const mx_page_t* const page = mx_pagemap_get(p);
  if (p == NULL || mx_pagemap_is_none(page)) return 0;
  const size_t usable = mx_usable_size(p);
  // A sampled guarded block has no padding.
  return usable == 0 ? 0 : mx_max(usable, page->block_size - MX_PAD);
}

static void* tell_size(void* p, size_t* block_size) {
  if (p != NULL && block_size != NULL) *block_size = block_size_of(p);
  return p;
}

void* mi_umalloc(size_t size, size_t* block_size) mi_attr_noexcept {
  return tell_size(mx_alloc(size), block_size);
}

void* mi_ucalloc(size_t count, size_t size, size_t* block_size) mi_attr_noexcept {
  return tell_size(mx_calloc(count, size), block_size);
}

void* mi_umalloc_small(size_t size, size_t* block_size) mi_attr_noexcept {
  return tell_size(mx_alloc(size), block_size);
}

void* mi_uzalloc_small(size_t size, size_t* block_size) mi_attr_noexcept {
  return tell_size(mi_zalloc(size), block_size);
}

void* mi_umalloc_aligned(size_t size, size_t alignment, size_t* block_size) mi_attr_noexcept {
  return tell_size(mi_malloc_aligned(size, alignment), block_size);
}

void* mi_uzalloc_aligned(size_t size, size_t alignment, size_t* block_size) mi_attr_noexcept {
  return tell_size(mi_zalloc_aligned(size, alignment), block_size);
}

void* mi_urealloc(void* p, size_t newsize, size_t* block_size_pre,
                  size_t* block_size_post) mi_attr_noexcept {
  if (block_size_pre != NULL) *block_size_pre = block_size_of(p);
  return tell_size(mi_realloc(p, newsize), block_size_post);
}

void mi_ufree(void* p, size_t* block_size) mi_attr_noexcept {
  tell_size(p, block_size);
  mx_free(p);
}

// ---- text --------------------------------------------------------------------------------------

char* mi_strdup(const char* s) mi_attr_noexcept {
  return s == NULL ? NULL : mx_verb_text(mx_tls_theap, s, strlen(s));
}

char* mi_strndup(const char* s, size_t n) mi_attr_noexcept {
  if (s == NULL) return NULL;
  const char* const end = (const char*)memchr(s, 0, n);
  return mx_verb_text(mx_tls_theap, s, end == NULL ? n : (size_t)(end - s));
}

char* mi_realpath(const char* fname, char* resolved_name) mi_attr_noexcept {
  return mx_verb_realpath(mx_tls_theap, fname, resolved_name);
}
