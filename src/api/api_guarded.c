// SPDX-License-Identifier: MIT
// Owns the calls that set which allocations are guarded. Sampling is one for the process: what is
// set through any heap holds for all.
#include "../../include/mimalloc.h"
#include "../service/options.h"

void mi_theap_guarded_set_sample_rate(mi_theap_t* theap, size_t sample_rate, size_t seed) {
  (void)theap;
  mx_option_set((int)mi_option_guarded_sample_seed, (long)seed);
  mx_option_set((int)mi_option_guarded_sample_rate, (long)sample_rate);
}

void mi_theap_guarded_set_size_bound(mi_theap_t* theap, size_t min, size_t max) {
  (void)theap;
  mx_option_set((int)mi_option_guarded_min, (long)min);
  mx_option_set((int)mi_option_guarded_max, (long)max);
}

void mi_heap_guarded_set_sample_rate(mi_heap_t* heap, size_t sample_rate, size_t seed) {
  (void)heap;
  mi_theap_guarded_set_sample_rate(NULL, sample_rate, seed);
}

void mi_heap_guarded_set_size_bound(mi_heap_t* heap, size_t min, size_t max) {
  (void)heap;
  mi_theap_guarded_set_size_bound(NULL, min, max);
}
