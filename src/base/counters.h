// SPDX-License-Identifier: MIT
// The counters behind the statistics: plain data that any floor may add to.
//
// All of them are changed on slow paths only (a page, a slice, an OS call, a thread), so a release
// build has true numbers at no cost to malloc and free. A count has a current value, a peak and a
// total of all increases; a counter only grows. Bytes where the name says memory, else items.
#ifndef MX_BASE_COUNTERS_H
#define MX_BASE_COUNTERS_H

#include "atomic.h"
#include "sizeclass.h"

typedef struct mx_count_s {
  mx_atomic(int64_t) total;
  mx_atomic(int64_t) peak;
  mx_atomic(int64_t) current;
} mx_count_t;

// Words of a bitmap of bins.
#define MX_BIN_WORDS ((MX_BIN_COUNT + 63) / 64)

// X(name) for counts, Y(name) for counters.
#define MX_COUNTERS(X, Y)                                                                       \
  X(pages) X(reserved) X(committed) X(page_committed) X(pages_abandoned) X(threads)             \
  X(malloc_huge) X(heaps) X(theaps) X(metadata) X(waiting)                                      \
  Y(reset) Y(purged) Y(mmap_calls) Y(commit_calls) Y(reset_calls) Y(purge_calls) Y(arena_count) \
  Y(malloc_huge_count) Y(malloc_guarded_count) Y(arena_rollback_count) Y(arena_purges)          \
  Y(pages_extended) Y(pages_retire) Y(page_searches) Y(page_searches_count)                     \
  Y(pages_reclaim_on_alloc) Y(pages_reclaim_on_free) Y(heaps_delete_wait) Y(holes_purged)

#define MX_COUNTER_X(name) mx_count_t name;
#define MX_COUNTER_Y(name) mx_atomic(int64_t) name;
typedef struct mx_counters_s {
  mx_count_t bin_pages[MX_BIN_COUNT];
  MX_COUNTERS(MX_COUNTER_X, MX_COUNTER_Y)
} mx_counters_t;

// As mx_count_add, where a lock keeps all others from changing the count.
static inline void mx_count_add_locked(mx_count_t* c, int64_t amount) {
  const int64_t now = mx_load_relaxed(&c->current) + amount;
  mx_store_relaxed(&c->current, now);
  if (amount <= 0) return;
  mx_store_relaxed(&c->total, mx_load_relaxed(&c->total) + amount);
  if (now > mx_load_relaxed(&c->peak)) mx_store_relaxed(&c->peak, now);
}

MX_BEGIN_DECLS
// Changes a count from any thread; negative amounts lower it.
void mx_count_add(mx_count_t* c, int64_t amount);
// Moves what is past to `to`: `from` starts again with what is there now. Of the peaks the highest
// stays: what is reported as a peak was certainly reached.
void mx_counters_move_past(mx_counters_t* to, mx_counters_t* from);
// Adds all of `from` to `to` and leaves zeros, for an owner that ends while nobody else counts in
// it; what is there now goes along, or is gone. `bins`: a bit for each bin that was counted, or
// NULL for all.
void mx_counters_move(mx_counters_t* to, mx_counters_t* from, const uint64_t* bins,
                      bool with_current);
MX_END_DECLS

mx_inline void mx_counter_add(mx_atomic(int64_t)* c, int64_t amount) { mx_add_relaxed(c, amount); }

// Of a counter that only the calling thread changes: no read-modify-write.
mx_inline void mx_counter_step_own(mx_atomic(int64_t)* own) {
  mx_store_relaxed(own, mx_load_relaxed(own) + 1);
}

#endif
