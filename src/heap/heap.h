// SPDX-License-Identifier: MIT
// The shapes of heaps: a sub-process holds arenas and heaps; a heap is usable from every
// thread; a thread-heap (theap) is one thread's part of a heap.
//
// A page belongs to one heap, and at any time to one theap of that heap or to nobody; when its heap
// is deleted it passes to the main heap, once (see heap_end.c for how). A theap's pages are its
// thread's alone and need no lock; a heap's lists are under the heap's lock. The main heap keeps no
// list of its pages (the arenas' records are one); other heaps do, so that they can be destroyed in
// time proportional to what they hold.
//
// A theap record belongs to one thread from its making to the thread's end, and is bound to one
// heap after another, or to none. Records of theaps, heaps and sub-processes are recycled and never
// given back, so an outdated pointer to one leads to a record, whose fields tell that it is none.
#ifndef MX_HEAP_HEAP_H
#define MX_HEAP_HEAP_H

#include "../arena/partition.h"
#include "../base/counters.h"
#include "../base/hooks.h"
#include "../base/lock.h"
#include "../base/options.h"
#include "../mem/numa.h"
#include "../page/blocks.h"

typedef struct mx_theap_s mx_theap_t;
typedef struct mx_heap_s mx_heap_t;
typedef struct mx_subproc_s mx_subproc_t;

#define MX_RETAINED_MAX 62       // empty pages that a theap keeps for a while

// Theaps of ended threads that wait for others.
#define MX_PARKED_MAX 8

#define MX_HEAP_GONE UINT64_MAX

// Pages that the record of a destroyed heap keeps, and about how many all of a sub-process' do.
#define MX_HEAP_CACHED_MAX 16
#define MX_HEAP_CACHED_ALL 32

// Freed blocks of one bin that a thread keeps at hand, see zig/magazine.c.
#define MX_MAGAZINE_PLACES 31
typedef struct mx_magazine_s {
  uint32_t count;
  uint16_t most;  // so many may be put here before somebody looks; 0: has no blocks
  uint16_t seen;  // `count` at the last round
  mx_block_t* blocks[MX_MAGAZINE_PLACES];
} mx_magazine_t;

#define MX_MAGAZINE_COUNT (MX_MAGAZINES ? MX_SMALL_BINS + 1 : 1)

// The pages of each bin. A page that is current, partial or full here is its thread's alone.
typedef struct mx_theap_bins_s {
  mx_page_t* front[MX_BIN_COUNT];    // what malloc looks at: `current`, or none: sampled, or shut
  mx_page_t* current[MX_BIN_COUNT];  // the page that a bin allocates from, or none
} mx_theap_bins_t;

typedef struct mx_theap_lists_s {
  uint32_t partial_count[MX_BIN_COUNT];
  uint32_t full_count[MX_BIN_COUNT];
  mx_page_t* partial[MX_BIN_COUNT];  // other pages of the bin that have or may get free blocks
  mx_page_t* full[MX_BIN_COUNT];     // the latest pages that became full, owner tagged
} mx_theap_lists_t;

// What is drawn for the guards and the profiler: see alloc/sample.c.
typedef struct mx_theap_sampling_s {
  size_t credit;         // bytes that are counted already, and need no more than that; see sample.h
  bool is_on;            // allocations are counted
  bool has_guards;       // until_guard is counted, too
  bool is_told;          // the program's own profiler sees the samples
  uint32_t seen;         // the state of sampling that it follows; while it is on:
  int64_t until_guard;   // allocations up to the next guarded block,
  int64_t until_sample;  // bytes up to the profiler's next sample, and the mean
  size_t mean;           // of which that was drawn, 0: there are none
} mx_theap_sampling_t;

// Empty pages among the partial ones that are kept for a while: a ring with holes.
typedef struct mx_theap_retained_s {
  uint32_t next;                    // where in the ring the next one goes
  uint32_t oldest;                  // no page lies between that place and this one
  uint32_t slices;
  uint32_t share;                   // more than so many slices are kept for a moment only
  mx_page_t* pages[MX_RETAINED_MAX];
  uint32_t until[MX_RETAINED_MAX];  // low bits of the clock, in ms
} mx_theap_retained_t;

// The first bin of blocks of more than 8 KiB, most of which have an OS page of their own. A request
// of such a size may get a block of a larger bin.
#define MX_LARGER_BIN (MX_SMALL_BINS + 1 + 3 * 8)
#define MX_LARGER_BINS (MX_BIN_HUGE - MX_LARGER_BIN)
mx_static_assert(MX_LARGER_BINS <= 64, "the bins are bits of a word");

// What rounds of housekeeping saw of each bin, and passes of collecting: see trim.c.
typedef struct mx_theap_trimming_s {
  bool shut[MX_BIN_COUNT];            // the current page was empty at the last round: see theap.c
  uint64_t slack[MX_BIN_WORDS];       // the current page was made of used memory, of which
  uint8_t slack_left[MX_BIN_COUNT];   // so many rounds more may find half uncarved, and of the
  uint8_t slack_wait[MX_BIN_COUNT];   // next page so many
  uint32_t all_went;                  // ms, when a round looked at hardly carved ones, too
  uint32_t idle_aged;                 // ms, when waits became shorter last
  uint64_t idle_gave;                 // bins that gave something back, and needed nothing yet
  uint16_t idle_left[MX_LARGER_BINS]; // so many passes more no page of the bin is idle
  uint8_t idle_wait[MX_LARGER_BINS];  // how often the bin needed again what it gave back, lately
} mx_theap_trimming_t;

// Where a pass of collecting is that stops between pages.
typedef struct mx_theap_collecting_s {
  size_t list;    // 0: there is no pass; 1: before the first bin's
  mx_page_t* at;  // the page of that list that comes next
  size_t least;   // committed since a pass began because that had grown, at the least
} mx_theap_collecting_t;

typedef struct mx_theap_links_s {
  mx_theap_t* next_in_thread;
  mx_theap_t* next_in_heap;          // under heap->lock; of unbound ones, the next such
  mx_theap_t* prev_in_heap;
  mx_theap_t* next_orphan;
  bool is_orphan;                    // on its first theap's list `orphans`
  mx_atomic(mx_theap_t*) slots_of;   // the first theap in whose slots this one was entered last
} mx_theap_links_t;

// Blocks of a bin that wait for the thread's next request: see alloc/spare.c. Only a thread's first
// theap has some. Bins that are MX_SPARE_SLOTS apart take turns.
#define MX_SPARE_SLOTS 32

typedef struct mx_spare_slot_s {
  mx_block_t* waiting;
  uint8_t bin;
  uint8_t count;
  uint8_t most;  // one more than so many may wait
  uint8_t rest;  // so many that are freed next do not
} mx_spare_slot_t;

typedef struct mx_theap_spares_s {
  mx_spare_slot_t slots[MX_SPARE_SLOTS];
  uint32_t bytes;
  uint32_t takes;  // how many were used again
} mx_theap_spares_t;

// Blocks that were of a larger size than they had to be: see alloc/slow.c.
typedef struct mx_theap_larger_s {
  uint32_t count;
  uint8_t of[MX_LARGER_BINS];  // of each bin lately
} mx_theap_larger_t;

// What the thread has of pages that it shares: see common.c.
typedef struct mx_theap_common_s {
  uint8_t outgrown;           // bins of which it wanted more than such pages give,
  uint8_t of[MX_LARGER_BIN];  // and blocks that it had of each
  uint32_t taken;             // larger ones that it had lately,
  uint32_t freed;             // and that it freed there
} mx_theap_common_t;

// What its thread counts by itself, since it comes too often for a word of all threads. Added to
// its heap's when it leaves that.
typedef struct mx_theap_counted_s {
  mx_atomic(int64_t) reclaims;  // of pages_reclaim_on_free
  mx_atomic(int64_t) extends;   // of pages_extended
  mx_atomic(int64_t) retires;   // of pages_retire
} mx_theap_counted_t;

// What holds for the thread: only in its first theap.
typedef struct mx_theap_thread_s {
  mx_theap_t** slots;             // the thread's theap of a heap, by the heap's slot
  size_t slot_count;
  mx_theap_t* unbound;            // bound to no heap
  mx_atomic(mx_theap_t*) orphans; // theaps whose heap others gave up, see mx_heap_delete
  mx_theap_t* after_end;          // the next in its list, under the lock of the records
  bool is_after_end;              // made after its thread was said to have ended
  bool is_pooled;                 // a thread that shall not take over what others leave
  bool was_parked;                // taken, with pages of another thread's: see parked.c
  bool was_brief;                 // the thread that had it last lived shortly: see common.c
  bool in_deferred_free;
  unsigned long long heartbeat;   // calls of the deferred-free function
  uint64_t begun;                 // ms, when the thread did, or 0
  uint32_t number;                // of the thread, as the OS knows it, or 0
} mx_theap_thread_t;

// What every thread writes lies in front, on one OS page if it can be.
struct mx_theap_s {
  mx_theap_bins_t bins;
  uintptr_t tid;               // what this thread writes into page->owner; 0: it is parked
  mx_atomic(mx_heap_t*) heap;  // NULL: bound to none, all lists are empty
  mx_theap_sampling_t sampling;
  mx_theap_trimming_t trimming;
  mx_theap_collecting_t collecting;
  mx_theap_counted_t counted;
  mx_theap_spares_t spares;
  uint32_t visits;             // of the slow path
  mx_theap_larger_t larger;
  mx_magazine_t* magazines;    // one for each small bin, or NULL
  mx_subproc_t* subproc;
  mx_theap_t* first;           // the first theap of this thread
  mx_theap_links_t links;
  mx_lock_t lock;              // held while it is collected, abandoned or emptied
  mx_theap_thread_t thread;
  mx_theap_common_t common;
  mx_theap_lists_t lists;
  mx_theap_retained_t retained;
};

struct mx_heap_s {
  mx_subproc_t* subproc;
  mx_lock_t lock;          // of the lists below
  mx_theap_t* theaps;
  mx_page_t* pages;        // none for a main heap
  mx_heap_t* next;         // in the sub-process, under its lock
  mx_heap_t* prev;
  size_t slot;             // constant, this record's number
  mx_page_t* search_from;  // where the next search for an abandoned page begins, or NULL
  mx_atomic(size_t) listed;  // abandoned pages with free blocks; exact when nothing moves
  mx_arena_t* arena;       // allocate only here, or NULL
  int numa_node;           // preferred, or -1
  mx_atomic(uint32_t) cached_count;  // changed by the only user, or under the lock
  mx_page_t* cached[MX_HEAP_CACHED_MAX];  // pages for the next heap in this record
  int tag;
  bool allow_destroy;
  uint64_t bins[MX_BIN_WORDS];  // bins that it ever had a page of, unless it is a main heap
  mx_atomic(uint64_t) id;  // unique, also among heaps that are gone; MX_HEAP_GONE for those
  mx_counters_t counters;
  mx_partition_t partition;
  struct mx_ranges_s* ranges;   // under the lock; NULL until there are any (see own_ranges.c)
};

// A place for the theap of a thread that ended: see parked.c.
typedef struct mx_parked_s {
  mx_atomic(mx_theap_t*) theap;  // the thread that exchanges it for NULL owns it
  mx_atomic(uint32_t) since;     // low bits of the clock, in ms, and
  mx_atomic(uint32_t) slices;    // in its pages: hints
} mx_parked_t;

// How far threads are with giving back parts of pages: see trim.c.
typedef struct mx_subproc_trim_s {
  mx_atomic(size_t) from;   // least committed bytes since pages were trimmed
  mx_atomic(int) busy;      // a thread is at it; what follows is that one's
  size_t arena, slice;      // how far
  size_t refaults;          // bytes of holes that were filled again lately
  uint64_t refaults_until;  // clock in ms when that is halved
} mx_subproc_trim_t;

// What a start touches lies together, from the lock to the main heap, and in the arenas.
struct mx_subproc_s {
  mx_atomic(uint64_t) search_from[MX_BIN_COUNT];  // where the next search for an abandoned page
                                               // begins: the arena's number and a word of its
                                               // bitmap, a hint
  mx_atomic(uint8_t) passed_on[MX_BIN_COUNT];  // more blocks than transfer caches keep, lately:
                                               // see heap/common.c
  mx_lock_t lock;                              // of the lists below
  mx_heap_t* heaps;
  mx_heap_t* free_heaps;                       // records to use again
  mx_atomic(size_t) cached_pages;              // that those keep
  mx_subproc_t *next, *prev;                   // in the order of making; under the list's lock,
  uint32_t visitors;                           // as these: threads that are at it in their steps
  bool is_ending;                              // nobody else comes
  mx_page_t* os_pages;                         // huge pages outside the arenas
  mx_subproc_trim_t trim;
  mx_atomic(size_t) listed[MX_BIN_COUNT];      // abandoned pages of the main heap with free blocks
  mx_parked_t parked[MX_PARKED_MAX];           // theaps of threads that ended
  mx_heap_t main_heap;
  mx_arenas_t arenas;
  mx_counters_t counters;                      // of heaps that are gone, and what was merged
};

extern mx_hidden mx_subproc_t mx_subproc_main;
// Serves threads that have no theap: all their requests are slow.
extern mx_hidden mx_theap_t mx_theap_empty;
// The thread has ended, so that only an allocation makes it a new theap.
extern mx_hidden mx_thread_local bool mx_tls_has_ended_var;
#define mx_tls_has_ended mx_tls(mx_tls_has_ended_var)
extern mx_hidden mx_thread_local mx_theap_t* mx_tls_theap_var;
#define mx_tls_theap mx_tls(mx_tls_theap_var)
// The theap that this thread last looked up by its heap. The empty one only while the thread has
// none at all.
extern mx_hidden mx_thread_local mx_theap_t* mx_tls_last_var;
#define mx_tls_last mx_tls(mx_tls_last_var)

// The magazines of this thread's default theap, or those that are empty and take nothing.
extern mx_hidden mx_magazine_t mx_magazines_none[MX_MAGAZINE_COUNT];
extern mx_hidden mx_thread_local mx_magazine_t* mx_tls_magazines_var;
#define mx_tls_magazines mx_tls(mx_tls_magazines_var)

// Frees what a theap has at hand: all, or what it did not use for a round.
mx_inline void mx_magazines_clear(mx_theap_t* theap, bool all) {
  if (MX_MAGAZINES && theap->magazines != NULL) {
    mx_load_relaxed(&mx_visits.clear_magazines)(theap, all);
  }
}

mx_inline bool mx_heap_is_main(const mx_heap_t* heap) { return heap == &heap->subproc->main_heap; }

// Whether no other heap ever has the addresses that the heap had.
mx_inline bool mx_heap_is_isolated(const mx_heap_t* heap) {
  return MX_ISOLATE && heap->partition.id != 0;
}

// The NUMA node that a heap's memory shall be on: the heap's own, or that of the thread that asks,
// where the option says so; -1: none.
static inline int mx_heap_node(const mx_heap_t* heap) {
  if (heap->numa_node >= 0 || mx_option(arena_is_numa_local) == 0) return heap->numa_node;
  return mx_numa_count() == 1 ? -1 : (int)mx_numa_current();
}

// Whether the fast path is not to have the current page of a bin.
mx_inline bool mx_theap_is_behind(const mx_theap_t* theap, size_t bin) {
  return theap->sampling.is_on || theap->trimming.shut[bin];
}

mx_inline void mx_theap_set_front(mx_theap_t* theap, size_t bin) {
  const bool is_behind = mx_theap_is_behind(theap, bin);
  theap->bins.front[bin] = (is_behind ? &mx_page_none : theap->bins.current[bin]);
}

// Makes a page, or none, the one that a bin allocates from.
mx_inline void mx_theap_set_current(mx_theap_t* theap, size_t bin, mx_page_t* page) {
  mx_check(bin < MX_BIN_COUNT && !theap->trimming.shut[bin]);
  mx_check(page == &mx_page_none || page->bin == bin);
  theap->bins.current[bin] = page;
  if (mx_likely(!theap->sampling.is_on)) theap->bins.front[bin] = page;
}

// The bin has no current page any more, nor what was seen of it.
mx_inline void mx_theap_clear_current(mx_theap_t* theap, size_t bin) {
  theap->trimming.shut[bin] = false;
  mx_clear_bit(theap->trimming.slack, bin);
  mx_theap_set_current(theap, bin, &mx_page_none);
}

#endif
