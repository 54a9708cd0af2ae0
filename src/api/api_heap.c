// SPDX-License-Identifier: MIT
// Allocation from first-class heaps: each call is the one of the same name without `heap_`, in
// the calling thread's part of the heap.
//
// That part is found by one comparison when it is the one that this thread used last. NULL stands
// for the main heap of the thread's sub-process.
#include "handles.h"
#include "verbs.h"

// Names the calling thread's theap of `heap`; returns NULL when there is no memory for one.
#define IN_HEAP(heap, theap)                                             \
  mx_theap_t* const theap = mx_api_theap_of(heap);                       \
  if (mx_unlikely(theap == NULL)) return NULL

// The rest of the calls below, for a heap that is not the last one used. It is a call at the very
// end, so that the fast path has nothing to save.
static mx_noinline void* malloc_elsewhere(mi_heap_t* heap, size_t size) {
  IN_HEAP(heap, theap);
  return mx_verb_malloc(theap, size);
}

static mx_noinline void* calloc_elsewhere(mi_heap_t* heap, size_t count, size_t size) {
  IN_HEAP(heap, theap);
  return mx_verb_calloc(theap, count, size);
}

// As mx_alloc_in(), but what is not done at once is left to functions that take the size where this
// one does, so that nothing is moved on the way of small blocks.
void* mi_heap_malloc(mi_heap_t* heap, size_t size) mi_attr_noexcept {
  mx_theap_t* const theap = mx_tls_last;
  if (mx_unlikely(!mx_api_is_last(heap))) return malloc_elsewhere(heap, size);
  if (mx_unlikely(size - MX_SIZE_MIN > MX_SMALL_MAX - MX_PAD - MX_SIZE_MIN)) {
    return mi_theap_malloc(mx_api_theap_handle(theap), size);
  }
  mx_page_t* const page = theap->bins.front[(size + MX_PAD + MX_ALIGN - 1) / MX_ALIGN];
  mx_block_t* const block = mx_page_pop(page);
  if (mx_unlikely(block == NULL)) return mi_theap_malloc(mx_api_theap_handle(theap), size);
  if (MX_HARDEN) mx_harden_alloc(page, block, size, false, false);
  return mx_given(block);
}

void* mi_heap_zalloc(mi_heap_t* heap, size_t size) mi_attr_noexcept {
  if (mx_likely(mx_api_is_last(heap))) return mx_verb_zalloc(mx_tls_last, size);
  return calloc_elsewhere(heap, 1, size);
}

void* mi_heap_calloc(mi_heap_t* heap, size_t count, size_t size) mi_attr_noexcept {
  if (mx_likely(mx_api_is_last(heap))) return mx_verb_calloc(mx_tls_last, count, size);
  return calloc_elsewhere(heap, count, size);
}

void* mi_heap_mallocn(mi_heap_t* heap, size_t count, size_t size) mi_attr_noexcept {
  return mi_heap_malloc(heap, mx_verb_product(count, size));
}

void* mi_heap_malloc_small(mi_heap_t* heap, size_t size) mi_attr_noexcept {
  return mi_heap_malloc(heap, size);
}

void* mi_heap_zalloc_small(mi_heap_t* heap, size_t size) mi_attr_noexcept {
  return mi_heap_zalloc(heap, size);
}

// ---- resizing ----------------------------------------------------------------------------------

void* mi_heap_realloc(mi_heap_t* heap, void* p, size_t newsize) mi_attr_noexcept {
  IN_HEAP(heap, theap);
  return mx_verb_realloc(theap, p, newsize, false);
}

void* mi_heap_reallocn(mi_heap_t* heap, void* p, size_t count, size_t size) mi_attr_noexcept {
  IN_HEAP(heap, theap);
  return mx_verb_realloc_product(theap, p, count, size, false);
}

void* mi_heap_reallocf(mi_heap_t* heap, void* p, size_t newsize) mi_attr_noexcept {
  void* const q = mi_heap_realloc(heap, p, newsize);
  if (q == NULL) mx_free(p);
  return q;
}

void* mi_heap_rezalloc(mi_heap_t* heap, void* p, size_t newsize) mi_attr_noexcept {
  IN_HEAP(heap, theap);
  return mx_verb_realloc(theap, p, newsize, true);
}

void* mi_heap_recalloc(mi_heap_t* heap, void* p, size_t newcount, size_t size) mi_attr_noexcept {
  IN_HEAP(heap, theap);
  return mx_verb_realloc_product(theap, p, newcount, size, true);
}

// ---- aligned -----------------------------------------------------------------------------------

void* mi_heap_malloc_aligned(mi_heap_t* heap, size_t size, size_t alignment) mi_attr_noexcept {
  IN_HEAP(heap, theap);
  return mx_verb_aligned(theap, size, alignment, 0, false);
}

void* mi_heap_malloc_aligned_at(mi_heap_t* heap, size_t size, size_t alignment,
                                size_t offset) mi_attr_noexcept {
  IN_HEAP(heap, theap);
  return mx_verb_aligned(theap, size, alignment, offset, false);
}

void* mi_heap_zalloc_aligned(mi_heap_t* heap, size_t size, size_t alignment) mi_attr_noexcept {
  IN_HEAP(heap, theap);
  return mx_verb_aligned(theap, size, alignment, 0, true);
}

void* mi_heap_zalloc_aligned_at(mi_heap_t* heap, size_t size, size_t alignment,
                                size_t offset) mi_attr_noexcept {
  IN_HEAP(heap, theap);
  return mx_verb_aligned(theap, size, alignment, offset, true);
}

void* mi_heap_calloc_aligned(mi_heap_t* heap, size_t count, size_t size,
                             size_t alignment) mi_attr_noexcept {
  IN_HEAP(heap, theap);
  return mx_verb_aligned(theap, mx_verb_product(count, size), alignment, 0, true);
}

void* mi_heap_calloc_aligned_at(mi_heap_t* heap, size_t count, size_t size, size_t alignment,
                                size_t offset) mi_attr_noexcept {
  IN_HEAP(heap, theap);
  return mx_verb_aligned(theap, mx_verb_product(count, size), alignment, offset, true);
}

void* mi_heap_realloc_aligned(mi_heap_t* heap, void* p, size_t newsize,
                              size_t alignment) mi_attr_noexcept {
  IN_HEAP(heap, theap);
  return mx_verb_realloc_aligned(theap, p, newsize, alignment, 0, false);
}

void* mi_heap_realloc_aligned_at(mi_heap_t* heap, void* p, size_t newsize, size_t alignment,
                                 size_t offset) mi_attr_noexcept {
  IN_HEAP(heap, theap);
  return mx_verb_realloc_aligned(theap, p, newsize, alignment, offset, false);
}

void* mi_heap_rezalloc_aligned(mi_heap_t* heap, void* p, size_t newsize,
                               size_t alignment) mi_attr_noexcept {
  IN_HEAP(heap, theap);
  return mx_verb_realloc_aligned(theap, p, newsize, alignment, 0, true);
}

void* mi_heap_rezalloc_aligned_at(mi_heap_t* heap, void* p, size_t newsize, size_t alignment,
                                  size_t offset) mi_attr_noexcept {
  IN_HEAP(heap, theap);
  return mx_verb_realloc_aligned(theap, p, newsize, alignment, offset, true);
}

void* mi_heap_recalloc_aligned(mi_heap_t* heap, void* p, size_t newcount, size_t size,
                               size_t alignment) mi_attr_noexcept {
  return mi_heap_recalloc_aligned_at(heap, p, newcount, size, alignment, 0);
}

void* mi_heap_recalloc_aligned_at(mi_heap_t* heap, void* p, size_t newcount, size_t size,
                                  size_t alignment, size_t offset) mi_attr_noexcept {
  IN_HEAP(heap, theap);
  const size_t total = mx_verb_product(newcount, size);
  return mx_verb_realloc_aligned(theap, p, total, alignment, offset, true);
}

// ---- text --------------------------------------------------------------------------------------

char* mi_heap_strdup(mi_heap_t* heap, const char* s) mi_attr_noexcept {
  if (s == NULL) return NULL;
  IN_HEAP(heap, theap);
  return mx_verb_text(theap, s, strlen(s));
}

char* mi_heap_strndup(mi_heap_t* heap, const char* s, size_t n) mi_attr_noexcept {
  if (s == NULL) return NULL;
  IN_HEAP(heap, theap);
  const char* const end = (const char*)memchr(s, 0, n);
  return mx_verb_text(theap, s, end == NULL ? n : (size_t)(end - s));
}

char* mi_heap_realpath(mi_heap_t* heap, const char* fname, char* resolved_name) mi_attr_noexcept {
  if (resolved_name != NULL) return mx_verb_realpath(NULL, fname, resolved_name);
  IN_HEAP(heap, theap);
  return mx_verb_realpath(theap, fname, NULL);
}

// ---- as operator new ---------------------------------------------------------------------------

void* mi_heap_alloc_new(mi_heap_t* heap, size_t size) {
  mx_theap_t* const theap = mx_api_theap_of(heap);
  // Without memory for a theap the default one serves to fail in the right way.
  if (mx_unlikely(theap == NULL)) return mx_verb_new(&mx_theap_empty, SIZE_MAX);
  return mx_verb_new(theap, size);
}

void* mi_heap_alloc_new_n(mi_heap_t* heap, size_t count, size_t size) {
  return mi_heap_alloc_new(heap, mx_verb_product(count, size));
}
