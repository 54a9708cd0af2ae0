// SPDX-License-Identifier: MIT
// The choice of the allocations that get a guarded block or a note of the profiler's.
//
// Sampling costs the fast path nothing, and yet sees every allocation. malloc looks for a block in
// the theap's `front`, which is the same as its current pages as long as nothing is sampled. A
// theap that is sampled has no page in its front, so each of its allocations is slow. That one
// counts, and then takes a block of the current page as the fast path would have. Where no sample
// lies among the next 64 KiB these are counted ahead: a credit, which needs one comparison.
//
// For guarded blocks allocations are counted: the distance to the next one is drawn from 1 to twice
// the rate, less one. One that falls on a request which cannot be guarded (its size, too many
// guarded blocks) is lost, so that each of the others is sampled as often as the rate says. Only
// theaps of the main heap have any.
//
// For the profiler bytes are counted, in all theaps: see poisson.h. A block with a note is a huge
// page of its own, whatever its size is, as a guarded one is, so that the free of all others need
// not look whether they have one; it may be both. What an ordinary block of its size would have is
// its block size, so that a realloc does with it what it does with others.
//
// A theap starts and stops to be sampled by its own thread only, at a slow allocation or when that
// thread changes something.
#include "sample.h"

#include "../base/hooks.h"
#include "../heap/os_pages.h"
#include "../heap/theap.h"
#include "../mem/pagemap.h"
#include "../mem/random.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "alloc.h"
#include "guarded.h"
#include "harden.h"
#include "poisson.h"

#define RATE_MAX ((size_t)1 << 30)

mx_has_semaphore mx_sampling_t mx_sampling;

typedef struct own_rate_s {
  bool is_set;
  size_t rate;
  uint64_t seed;
} own_rate_t;

typedef struct own_bound_s {
  bool is_set;
  size_t least, most;
} own_bound_t;

// A thread has one theap of the main heap, so what is set for that is kept with the thread.
mx_used static mx_thread_local own_rate_t own_rate;
mx_used static mx_thread_local own_bound_t own_bound;
mx_used static mx_thread_local bool is_paused;  // what a stack walk allocates is not sampled

static bool can_be_guarded(const mx_theap_t* theap) {
  return theap == theap->first && mx_load_relaxed(&theap->heap) == &mx_subproc_main.main_heap;
}

static size_t rate_now(void) {
  if (mx_tls(own_rate).is_set) return mx_tls(own_rate).rate;
  const long option = mx_option(guarded_sample_rate);
  return option > 0 ? mx_min((size_t)option, RATE_MAX) : 0;
}

static bool is_within_bound(size_t size) {
  if (mx_tls(own_bound).is_set) {
    return size >= mx_tls(own_bound).least && size <= mx_tls(own_bound).most;
  }
  return size >= (size_t)mx_option(guarded_min) && size <= (size_t)mx_option(guarded_max);
}

static int64_t draw_guard(size_t rate) {
  mx_check(rate <= RATE_MAX);
  static mx_atomic(uint64_t) seeded;  // with a seed the same allocations are sampled in every run
  const uint64_t seed = (mx_tls(own_rate).is_set ? mx_tls(own_rate).seed
                                                 : (uint64_t)mx_option(guarded_sample_seed));
  uint64_t random;
  if (rate == 0) return INT64_MAX;
  if (seed == 0) {
    random = mx_random64();
  } else {
    random = seed + mx_add_relaxed(&seeded, (uint64_t)1);
    mx_random_step(&random);
    mx_random_step(&random);
  }
  return 1 + (int64_t)((random >> 16) % (2 * (uint64_t)rate - 1));
}

// A request of as many whole bytes as the distance has, or one more, reaches the point.
static int64_t draw_sample(size_t mean) {
  return mean == 0 ? INT64_MAX : (int64_t)mx_poisson_distance((double)mean) + 1;
}

// What is at hand there would be given out again without a look.
static void close_magazines(mx_theap_t* theap) {
  mx_magazines_clear(theap, true);
  for (size_t bin = 0; theap->magazines != NULL && bin < MX_MAGAZINE_COUNT; bin++) {
    theap->magazines[bin].most = 0;
  }
}

static void set_sampled(mx_theap_t* theap, bool sampled) {
  mx_check(theap->tid == mx_thread_id());
  theap->sampling.is_on = sampled;
  if (MX_MAGAZINES && sampled) close_magazines(theap);
  for (size_t bin = 0; bin < MX_BIN_COUNT; bin++) mx_theap_set_front(theap, bin);
}

size_t mx_sample_default_rate(void) {
  const long rate = mx_option(prof_rate);
  return rate > 0 ? (size_t)rate : (size_t)MI_DEFAULT_PROF_RATE;
}

static bool is_told(void) { return mx_load_relaxed(&mx_sampling.is_told); }

static size_t mean_now(void) {
  const size_t rate = mx_load_relaxed(&mx_sampling.rate);
  const bool wants = (is_told() || mx_sample_is_traced());
  return rate == 0 && wants ? mx_sample_default_rate() : rate;
}

static void follow_sampling(mx_theap_t* theap) {
  theap->sampling.seen = mx_load_acquire(&mx_sampling.state);
  theap->sampling.credit = 0;
  const size_t rate = (can_be_guarded(theap) ? rate_now() : 0);
  const size_t mean = mean_now();
  const bool samples = (rate > 0 || mean > 0);
  if (theap->sampling.is_on != samples) set_sampled(theap, samples);
  theap->sampling.has_guards = (rate > 0);
  mx_check(theap->sampling.is_on == samples);
  theap->sampling.until_guard = draw_guard(rate);
  theap->sampling.mean = mean;
  theap->sampling.until_sample = draw_sample(mean);
  // Where the program says how far it is, that is what is kept of it.
  theap->sampling.is_told = is_told();
  if (theap->sampling.is_told) theap->sampling.mean = (size_t)theap->sampling.until_sample;
}

void mx_sample_apply(void) {
  mx_add_acq_rel(&mx_sampling.state, MX_SAMPLING_CHANGE);
  mx_theap_t* const first = mx_tls_theap->first;
  if (first != NULL) follow_sampling(first);
}

void mx_sample_set_profile(size_t rate) {
  mx_store_relaxed(&mx_sampling.rate, rate);
  mx_sample_apply();
}

void mx_sample_set_told(void) {
  mx_store_release(&mx_sampling.is_told, true);
  mx_sample_apply();
}

bool mx_sample_pause(bool pause) {
  const bool before = mx_tls(is_paused);
  mx_tls(is_paused) = pause;
  return before;
}

// ---- blocks with a note ------------------------------------------------------------------------

static void set_block_size(mx_page_t* page, size_t size) {
  mx_check(mx_page_is_huge(page) && size <= mx_page_size(page));
  if (MX_GUARD_PAGES) mx_page_guard_huge(page, false);
  mx_huge_page_resize(page, size);
  if (MX_GUARD_PAGES) mx_page_guard_huge(page, true);
}

// A block in a page of its own.
static void* alloc_noted(const mx_theap_t* theap, const mx_request_t* request) {
  const size_t padded = request->size + MX_PAD;
  const bool is_small = (padded <= MX_SHARED_MAX);
  // What an ordinary block would have for as many bytes.
  const size_t whole = (is_small ? mx_bin_size(mx_bin_of(padded)) : padded);
  mx_check(whole >= padded && request->size > 0);
  void* const p = mx_huge_alloc(theap->heap, is_small ? whole : request->size, request->align,
                                request->is_growing, request->zero);
  if (p == NULL) return NULL;
  if (is_small) set_block_size(mx_pagemap_get(p), whole);
  if (MX_HARDEN) mx_harden_alloc_huge(p, request->size, request->zero);
  return p;
}

static void set_note(mx_page_t* page, void* note) {
  if (note == NULL) return;
  mx_check(mx_page_is_huge(page) && !mx_page_has_note(page));
  page->note = note;
  const uint8_t lend = mx_load_relaxed(&page->lend);
  mx_store_relaxed(&page->lend, (uint8_t)(lend | MX_PAGE_NOTED));
}

static void begin_note(void* block, size_t size, double probability, const void* frame) {
  // A tracer may listen before there is a profiler.
  if (mx_hooks.begin_note == NULL) return;
  set_note(mx_pagemap_get(block), mx_hooks.begin_note(block, size, probability, frame));
}

// The program's own profiler sees the sample, and says how many bytes there are up to the next one.
static void tell_note(mx_theap_t* theap, void* block, size_t size) {
  mx_page_t* const page = mx_pagemap_get(block);
  const size_t threshold = theap->sampling.mean;
  mx_check(threshold > 0 && theap->sampling.until_sample <= 0);
  const size_t since = (size_t)((int64_t)threshold - theap->sampling.until_sample);
  size_t next = threshold;
  set_note(page, mx_hooks.tell_note(block, size, page->block_size - MX_PAD, threshold, since,
                                    (uint8_t)mx_load_relaxed(&theap->heap)->tag, &next));
  theap->sampling.mean = mx_max(mx_min(next, (size_t)PTRDIFF_MAX), 1);
  theap->sampling.until_sample = (int64_t)theap->sampling.mean;
}

void mx_sample_resize(mx_page_t* page, size_t size) {
  mx_check(mx_page_has_note(page));
  mx_hooks.resize_note(page->note, size);
}

void mx_sample_renew(const mx_theap_t* theap, void* block, size_t size) {
  mx_page_t* const page = mx_pagemap_get(block);
  if (mx_page_has_note(page) && is_told()) mx_sample_resize(page, size);
  else if (mx_page_has_note(page)) mx_page_end_note(page);
  const size_t mean = theap->sampling.mean;
  if (!theap->sampling.is_on || mean == 0 || mx_tls(is_paused) || is_told()) return;
  const double probability = mx_poisson_share(size, (double)mean);
  if (!mx_poisson_draw(probability)) return;
  mx_sample_pause(true);
  begin_note(block, size, probability, NULL);
  mx_sample_pause(false);
}

// ---- samples -----------------------------------------------------------------------------------

// Guarded blocks are as aligned as their size, up to what slices are.
static void* alloc_guarded(const mx_request_t* request) {
  const size_t size = request->size, align = request->align;
  const size_t whole = (align <= MX_ALIGN ? mx_align_up(size, align)
                                          : mx_align_up(size + MX_PAD, align) - MX_PAD);
  mx_check(align <= MX_SLICE_SIZE && whole >= size);
  void* const p = mx_guarded_alloc(whole);
  if (MX_HARDEN && p != NULL && whole != size) mx_harden_shrink(p, size);
  return p;
}

static void* alloc_special(mx_theap_t* theap, const mx_request_t* request, bool is_guard,
                           bool is_sample) {
  const bool may_guard = (request->align <= MX_SLICE_SIZE && is_within_bound(request->size));
  void* p = (is_guard && may_guard ? alloc_guarded(request) : NULL);
  if (!is_sample) return p;
  const size_t mean = theap->sampling.mean;
  if (p == NULL) p = alloc_noted(theap, request);
  if (p == NULL) return NULL;
  if (theap->sampling.is_told) {
    tell_note(theap, p, request->size);
    return p;
  }
  begin_note(p, request->size, mx_poisson_share(request->size, (double)mean), request->frame);
  return p;
}

static void* take_turn(mx_theap_t* theap, const mx_request_t* request) {
  if (mx_sample_has_changed(theap)) {
    follow_sampling(theap);
    if (!theap->sampling.is_on || !mx_sample_is_due(theap, request->size)) return NULL;
  }
  const bool is_guard = (theap->sampling.has_guards && theap->sampling.until_guard <= 0);
  // The visit before may have called the program, which allocated: then that had the sample.
  mx_check(theap->sampling.credit == 0 || theap->sampling.until_sample > 0);
  const bool is_sample = (theap->sampling.until_sample <= 0);
  if (is_guard) theap->sampling.until_guard = draw_guard(can_be_guarded(theap) ? rate_now() : 0);
  if (is_sample && !theap->sampling.is_told) {
    theap->sampling.until_sample = draw_sample(theap->sampling.mean);
  }
  if (request->size == 0 || mx_tls(is_paused)) return NULL;
  mx_sample_pause(true);
  void* const p =
      alloc_special(theap, request, is_guard, is_sample && theap->sampling.mean > 0);
  mx_sample_pause(false);
  return p;
}

void* mx_sample_turn(mx_theap_t* theap, size_t size, bool zero, const void* frame) {
  const mx_request_t request = {size, 1, false, zero, frame};
  return take_turn(theap, &request);
}

void* mx_sample_apart(mx_theap_t* theap, size_t size, size_t align, bool is_growing, bool zero) {
  const mx_request_t request = {size, align, is_growing, zero, NULL};
  return mx_sample_is_due(theap, size) ? take_turn(theap, &request) : NULL;
}

void* mx_sample_begin(mx_theap_t* theap, size_t size, bool zero) {
  return theap->sampling.is_on ? NULL : mx_sample_turn(theap, size, zero, NULL);
}

// ---- guarded blocks of one thread --------------------------------------------------------------

void mx_sample_set_rate(mx_theap_t* theap, size_t rate, size_t seed) {
  if (!can_be_guarded(theap)) return;
  mx_tls(own_rate).is_set = true;
  mx_tls(own_rate).rate = mx_min(rate, RATE_MAX);
  mx_tls(own_rate).seed = seed;
  if (rate > 0) mx_store_relaxed(&mx_sampling.has_own, 1);
  follow_sampling(theap);
}

void mx_sample_set_bound(const mx_theap_t* theap, size_t least, size_t most) {
  if (!can_be_guarded(theap)) return;
  mx_tls(own_bound).is_set = true;
  mx_tls(own_bound).least = least;
  mx_tls(own_bound).most = most;
}
