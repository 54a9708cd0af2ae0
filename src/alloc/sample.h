// SPDX-License-Identifier: MIT
// The choice of allocations that get more than a block: one in guarded_sample_rate a guarded
// block, and of so many bytes one a note of the profiler's. In any build. See sample.c.
#ifndef MX_ALLOC_SAMPLE_H
#define MX_ALLOC_SAMPLE_H

#include "../base/options.h"
#include "../heap/heap.h"
#include "../os/probes.h"
#include "harden.h"

// The low half of `state` is the semaphore of the probes: a tracer that comes or goes changes the
// state, and nobody has to look for it.
#define MX_SAMPLING_CHANGE ((uint32_t)1 << 16)

typedef struct mx_sampling_s {
  mx_atomic(uint32_t) state;  // another number whenever something of this has changed
  mx_atomic(int) has_own;     // a theap has a rate of its own for guarded blocks, above 0
  mx_atomic(size_t) rate;     // the profiler's, mean bytes between samples; 0: it is off
  mx_atomic(bool) is_told;    // the profiler is the program's own, and says where the next one is
} mx_sampling_t;

// Of an allocation that may be sampled.
typedef struct mx_request_s {
  size_t size;
  size_t align;     // of its place; 1: any
  bool is_growing;  // see mx_huge_alloc
  bool zero;
  const void* frame;  // of the function that malloc's caller called, where it is known; or NULL
} mx_request_t;

MX_BEGIN_DECLS
extern mx_hidden mx_sampling_t mx_sampling;

// For a slow allocation of a theap that has not seen the present state: samples the theap if it has
// to be, and answers as mx_sample_turn.
void* mx_sample_begin(mx_theap_t* theap, size_t size, bool zero);
// For an allocation that is due: a block, or NULL when the request gets none that is special.
// `frame` is of the function that malloc's caller called, or NULL where it is not known.
void* mx_sample_turn(mx_theap_t* theap, size_t size, bool zero, const void* frame);
// The same for one that is alone in its page, of a sampled theap, due or not.
void* mx_sample_apart(mx_theap_t* theap, size_t size, size_t align, bool is_growing, bool zero);
// The state has changed. The calling thread's theap follows now, if it is of the main heap; others
// do at their next slow allocation.
void mx_sample_apply(void);
// The rate that the options want where nobody names one.
size_t mx_sample_default_rate(void);
// Starts notes of blocks, one in so many bytes, or stops (0). Those that are taken stay.
void mx_sample_set_profile(size_t rate);
// Starts those of a profiler of the program's own; the first are drawn.
void mx_sample_set_told(void);
// Sets, for a theap of the calling thread, what the options say of guarded blocks for all others.
// Only a main heap's has any; for another it does nothing.
void mx_sample_set_rate(mx_theap_t* theap, size_t rate, size_t seed);
void mx_sample_set_bound(const mx_theap_t* theap, size_t least, size_t most);

// ---- blocks with a note ------------------------------------------------------------------------
// A block with a note stays where it is and has another size.
void mx_sample_resize(mx_page_t* page, size_t size);
// A huge block was resized: it counts as freed and allocated anew.
void mx_sample_renew(const mx_theap_t* theap, void* block, size_t size);
// This thread's allocations are not sampled, until the same with false.
bool mx_sample_pause(bool pause);
MX_END_DECLS

// Whether a tracer listens to the probes of samples.
mx_inline bool mx_sample_is_traced(void) {
  return mx_load_relaxed(&mx_sampling.state) % MX_SAMPLING_CHANGE != 0;
}

mx_inline bool mx_sample_is_on(void) {
  return mx_option(guarded_sample_rate) > 0 || mx_load_relaxed(&mx_sampling.has_own) != 0 ||
         mx_load_relaxed(&mx_sampling.rate) != 0 || mx_sample_is_traced();
}

mx_inline bool mx_sample_has_changed(const mx_theap_t* theap) {
  return mx_load_relaxed(&mx_sampling.state) != theap->sampling.seen;
}

// Bytes that are counted ahead: so many are allocated, at the most, before a change is followed.
#define MX_SAMPLING_CREDIT ((size_t)64 << 10)

// Counts the allocations that come next, as far as no sample lies among them. Reads once, as the
// next: what the handler of a signal allocates between two reads would make the rest of the credit
// wrap around, and this thread would not be sampled again.
mx_inline void mx_sample_count_ahead(mx_theap_sampling_t* sampling) {
  const int64_t until = sampling->until_sample;
  if (mx_unlikely(sampling->has_guards) || until <= 0) return;
  const size_t credit = mx_min((size_t)until - 1, MX_SAMPLING_CREDIT);
  mx_check(until > (int64_t)credit);
  sampling->credit = credit;
  sampling->until_sample = until - (int64_t)credit;
}

// Counts an allocation, if it is on credit.
mx_inline bool mx_sample_is_on_credit(mx_theap_sampling_t* sampling, size_t size) {
  const size_t credit = sampling->credit;
  mx_check(credit <= MX_SAMPLING_CREDIT);
  if (mx_unlikely(size >= credit)) return false;
  sampling->credit = credit - size;
  return true;
}

// Nothing is counted that was not allocated.
mx_inline void mx_sample_end_credit(mx_theap_sampling_t* sampling) {
  const size_t credit = sampling->credit;
  mx_check(credit <= MX_SAMPLING_CREDIT);
  sampling->credit = 0;
  sampling->until_sample += (int64_t)credit;
}

// Counts an allocation of a sampled theap: whether it is a sample, or what is sampled has changed.
mx_inline bool mx_sample_is_due(mx_theap_t* theap, size_t size) {
  mx_theap_sampling_t* const sampling = &theap->sampling;
  mx_sample_end_credit(sampling);
  if (mx_unlikely(mx_sample_has_changed(theap))) return true;
  // A request that is too large for any memory may wrap it around: that fails anyway.
  sampling->until_sample = (int64_t)((uint64_t)sampling->until_sample - size);
  const bool is_guard = (sampling->has_guards && --sampling->until_guard <= 0);
  if (is_guard || sampling->until_sample <= 0) return true;
  mx_sample_count_ahead(sampling);
  return false;
}

// What a sampled program allocates, nearly always: a block such as the fast path would have taken,
// for a small size (see mx_alloc_in), on credit. NULL says only that this does not serve.
mx_inline void* mx_alloc_counted(mx_theap_t* theap, size_t size) {
  const size_t credit = theap->sampling.credit;  // 0 where nothing is sampled; malloc(0) needs 1
  mx_check(credit == 0 || theap->sampling.is_on);
  if (mx_unlikely(size >= credit)) return NULL;
  mx_page_t* const page = theap->bins.current[(size + MX_PAD + MX_ALIGN - 1) / MX_ALIGN];
  mx_block_t* const block = mx_take(page, size, true);
  if (mx_likely(block != NULL)) theap->sampling.credit = credit - size;
  return block;
}

#endif
