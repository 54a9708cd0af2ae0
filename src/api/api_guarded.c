// SPDX-License-Identifier: MIT
// The calls that set which allocations of a theap are guarded.
#include "../../include/mimalloc.h"
#include "../alloc/sample.h"
#include "handles.h"

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
