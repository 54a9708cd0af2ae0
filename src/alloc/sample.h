// SPDX-License-Identifier: MIT
// The choice of the allocations that get a guarded block: one in guarded_sample_rate, in any
// build. See sample.c.
#ifndef MX_ALLOC_SAMPLE_H
#define MX_ALLOC_SAMPLE_H

#include "../base/options.h"
#include "../heap/heap.h"

MX_BEGIN_DECLS
// For a slow allocation of a theap that is not sampled, while sampling is on: samples the theap if
// it has to be, and answers as mx_sample_turn.
void* mx_sample_begin(mx_theap_t* theap, size_t size);
// For an allocation that is due: a guarded block, or NULL when the request gets none.
void* mx_sample_turn(mx_theap_t* theap, size_t size);
// Samples the calling thread's theap of the main heap, or no longer, as options and its own
// settings say. Other threads follow at their next slow allocation.
void mx_sample_apply(void);
// Sets, for a theap of the calling thread, what the options say for all others. Only a main heap's
// has blocks that are sampled; for another it does nothing.
void mx_sample_set_rate(mx_theap_t* theap, size_t rate, size_t seed);
void mx_sample_set_bound(const mx_theap_t* theap, size_t least, size_t most);
extern mx_hidden mx_atomic(int) mx_sample_has_own;  // a theap has a rate of its own, above 0
MX_END_DECLS

mx_inline bool mx_sample_is_on(void) {
  return mx_option(guarded_sample_rate) > 0 || mx_load_relaxed(&mx_sample_has_own) != 0;
}

// Counts an allocation of a sampled theap: whether it is the next sample, or the rate has changed.
mx_inline bool mx_sample_is_due(mx_theap_t* theap) {
  return --theap->until_sample <= 0 || mx_option(guarded_sample_rate) != theap->rate_seen;
}

#endif
