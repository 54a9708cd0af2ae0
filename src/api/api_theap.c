// SPDX-License-Identifier: MIT
// The calls on thread-heaps: for the thread that has one in hand, without a look-up.
#include "../../include/mimalloc.h"
#include "../alloc/sample.h"
#include "../heap/thread_life.h"
#include "handles.h"
#include "verbs.h"

mi_theap_t* mi_heap_theap(mi_heap_t* heap) { return mx_api_theap_handle(mx_api_theap_of(heap)); }

mi_theap_t* mi_theap_set_default(mi_theap_t* theap) {
  return mx_api_theap_handle(mx_thread_set_default(mx_api_theap(theap)));
}

mi_theap_t* mi_theap_get_default(void) {
  mx_theap_t* const theap = mx_thread_theap();
  if (theap == NULL) errno = ENOMEM;
  return mx_api_theap_handle(theap);
}

void* mi_theap_malloc(mi_theap_t* theap, size_t size) mi_attr_noexcept {
  return mx_verb_malloc(mx_api_theap(theap), size);
}

void* mi_theap_zalloc(mi_theap_t* theap, size_t size) mi_attr_noexcept {
  return mx_verb_zalloc(mx_api_theap(theap), size);
}

void* mi_theap_calloc(mi_theap_t* theap, size_t count, size_t size) mi_attr_noexcept {
  return mx_verb_calloc(mx_api_theap(theap), count, size);
}

void* mi_theap_malloc_small(mi_theap_t* theap, size_t size) mi_attr_noexcept {
  return mx_verb_malloc(mx_api_theap(theap), size);
}

void* mi_theap_zalloc_small(mi_theap_t* theap, size_t size) mi_attr_noexcept {
  return mx_verb_zalloc(mx_api_theap(theap), size);
}

void* mi_theap_malloc_aligned(mi_theap_t* theap, size_t size, size_t alignment) mi_attr_noexcept {
  return mx_verb_aligned(mx_api_theap(theap), size, alignment, 0, false);
}

void* mi_theap_realloc(mi_theap_t* theap, void* p, size_t newsize) mi_attr_noexcept {
  return mx_verb_realloc(mx_api_theap(theap), p, newsize, false);
}

// ---- guarded blocks -----------------------------------------------------------------------------

void mi_theap_guarded_set_sample_rate(mi_theap_t* theap, size_t sample_rate, size_t seed) {
  if (theap != NULL) mx_sample_set_rate(mx_api_theap(theap), sample_rate, seed);
}

void mi_theap_guarded_set_size_bound(mi_theap_t* theap, size_t min, size_t max) {
  if (theap != NULL) mx_sample_set_bound(mx_api_theap(theap), min, max);
}

void mi_heap_guarded_set_sample_rate(mi_heap_t* heap, size_t sample_rate, size_t seed) {
  mx_theap_t* const theap = mx_api_theap_of(heap);
  if (theap != NULL) mx_sample_set_rate(theap, sample_rate, seed);
}

void mi_heap_guarded_set_size_bound(mi_heap_t* heap, size_t min, size_t max) {
  mx_theap_t* const theap = mx_api_theap_of(heap);
  if (theap != NULL) mx_sample_set_bound(theap, min, max);
}
