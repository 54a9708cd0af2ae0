// SPDX-License-Identifier: MIT
// The choice of the allocations that get a guarded block.
//
// Sampling costs the fast path nothing, and yet sees every allocation. malloc looks for a block in
// the theap's `front`, which is the same as its current pages as long as nothing is sampled. A
// theap that is sampled has no page in its front, so each of its allocations is slow. That one
// counts, and then takes a block of the current page as the fast path would have.
//
// The distance to the next sample is drawn from 1 to twice the rate, less one. One that falls on a
// request which cannot be guarded (its size, too many guarded blocks) is lost, so that each of the
// others is sampled as often as the rate says.
//
// A theap starts and stops to be sampled by its own thread only, at a slow allocation or when that
// thread changes the rate. Only theaps of the main heap are.
#include "sample.h"

#include "../mem/pagemap.h"
#include "../mem/random.h"
#include "../os/os.h"
#include "guarded.h"

#define RATE_MAX ((size_t)1 << 30)

mx_atomic(int) mx_sample_has_own;

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
mx_used static mx_thread_local bool is_guarding;  // what a stack walk allocates is not sampled

static bool can_be_sampled(const mx_theap_t* theap) {
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

static void draw_next(mx_theap_t* theap, size_t rate) {
  static mx_atomic(uint64_t) seeded;  // with a seed the same allocations are sampled in every run
  const uint64_t seed = (mx_tls(own_rate).is_set ? mx_tls(own_rate).seed
                                                 : (uint64_t)mx_option(guarded_sample_seed));
  uint64_t random;
  if (seed == 0) {
    random = mx_random64();
  } else {
    random = seed + mx_add_relaxed(&seeded, (uint64_t)1);
    mx_random_step(&random);
    mx_random_step(&random);
  }
  theap->until_sample = 1 + (int64_t)((random >> 16) % (2 * (uint64_t)rate - 1));
  theap->rate_seen = mx_option(guarded_sample_rate);
}

static void set_sampled(mx_theap_t* theap, bool sampled) {
  theap->is_sampled = sampled;
  for (size_t bin = 0; bin < MX_BIN_COUNT; bin++) {
    theap->front[bin] = (sampled ? &mx_page_none : theap->current[bin]);
  }
}

// Makes a theap sampled or not, as it should be; whether it is.
static bool follow_rate(mx_theap_t* theap) {
  const size_t rate = (can_be_sampled(theap) ? rate_now() : 0);
  if (theap->is_sampled != (rate > 0)) set_sampled(theap, rate > 0);
  if (rate > 0) draw_next(theap, rate);
  return rate > 0;
}

void mx_sample_apply(void) {
  mx_theap_t* const first = mx_tls_theap->first;
  if (first != NULL) follow_rate(first);
}

void* mx_sample_turn(mx_theap_t* theap, size_t size) {
  const bool is_due = (theap->until_sample <= 0);  // else the option has changed
  if (!follow_rate(theap) || !is_due) return NULL;
  if (size == 0 || !is_within_bound(size) || mx_tls(is_guarding)) return NULL;
  mx_tls(is_guarding) = true;
  void* const p = mx_guarded_alloc(size);
  mx_tls(is_guarding) = false;
  return p;
}

void* mx_sample_begin(mx_theap_t* theap, size_t size) {
  if (theap->is_sampled || !follow_rate(theap) || !mx_sample_is_due(theap)) return NULL;
  return mx_sample_turn(theap, size);
}

void mx_sample_set_rate(mx_theap_t* theap, size_t rate, size_t seed) {
  if (!can_be_sampled(theap)) return;
  mx_tls(own_rate).is_set = true;
  mx_tls(own_rate).rate = mx_min(rate, RATE_MAX);
  mx_tls(own_rate).seed = seed;
  if (rate > 0) mx_store_relaxed(&mx_sample_has_own, 1);
  follow_rate(theap);
}

void mx_sample_set_bound(const mx_theap_t* theap, size_t least, size_t most) {
  if (!can_be_sampled(theap)) return;
  mx_tls(own_bound).is_set = true;
  mx_tls(own_bound).least = least;
  mx_tls(own_bound).most = most;
}
