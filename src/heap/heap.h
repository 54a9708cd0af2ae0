// SPDX-License-Identifier: MIT
// Owns the shapes of heaps: a sub-process holds arenas and heaps; a heap is usable from every
// thread; a thread-heap (theap) is one thread's part of a heap.
//
// A page belongs to one heap for its life, and at any time to one theap of that heap or to nobody.
// A theap is used by its thread alone and needs no lock; a heap's lists are under the heap's lock.
// The main heap keeps no list of its pages (the arenas' records are one); other heaps do, so that
// they can be destroyed in time proportional to what they hold.
#ifndef MX_HEAP_HEAP_H
#define MX_HEAP_HEAP_H

#include "../base/counters.h"
#include "../base/lock.h"
#include "../page/page.h"

typedef struct mx_theap_s mx_theap_t;
typedef struct mx_heap_s mx_heap_t;
typedef struct mx_subproc_s mx_subproc_t;

#define MX_VISITS_PER_ROUND 128  // slow visits between two rounds of housekeeping
#define MX_RETAINED_MAX 64       // empty pages that a theap keeps for a while

struct mx_theap_s {
  // The hot lists: for each small bin the blocks that malloc pops, all of the bin's current page.
  // heads[0] stays NULL, so a request of 0 bytes takes the slow path.
  mx_block_t* heads[MX_SMALL_BINS + 1];
  uintptr_t tid;                         // what this thread writes into page->owner
  mx_heap_t* heap;                       // NULL: the empty theap
  mx_page_t* current[MX_BIN_COUNT];      // the page that a bin allocates from, or none
  mx_page_t* partial[MX_BIN_COUNT];      // other pages of the bin that have or may get free blocks
  mx_page_t* full[MX_BIN_COUNT];         // the latest pages that became full, owner tagged
  uint16_t partial_count[MX_BIN_COUNT];
  uint16_t full_count[MX_BIN_COUNT];
  mx_page_t* retained[MX_RETAINED_MAX];  // ring of empty pages among the partial ones, with holes
  uint32_t retained_until[MX_RETAINED_MAX];  // low bits of the clock, in ms
  uint32_t retained_next;                // where in the ring the next one goes
  uint32_t retained_slices;
  uint32_t visits;                       // of the slow path
  bool in_deferred_free;
  unsigned long long heartbeat;
  mx_subproc_t* subproc;
  mx_theap_t* first;                     // the first theap of this thread
  mx_theap_t* next_in_thread;
  mx_theap_t* next_in_heap;              // under heap->lock
  mx_theap_t* prev_in_heap;
  uint64_t random;                       // state of a small generator, for hardened builds
};

struct mx_heap_s {
  mx_subproc_t* subproc;
  mx_lock_t lock;          // of the lists below
  mx_theap_t* theaps;
  mx_page_t* pages;        // none for a main heap
  mx_heap_t* next;         // in the sub-process, under its lock
  mx_heap_t* prev;
  mx_arena_t* arena;       // allocate only here, or NULL
  int numa_node;           // preferred, or -1
  int tag;
  bool allow_destroy;
  uint64_t id;             // unique, also among heaps that are gone
  mx_counters_t counters;
};

struct mx_subproc_s {
  mx_lock_t lock;                              // of the lists below
  mx_heap_t* heaps;
  mx_theap_t* free_theaps;                     // records to use again
  mx_subproc_t* next;
  mx_page_t* os_pages;                         // huge pages outside the arenas (heap_next links)
  mx_atomic(size_t) listed[MX_BIN_COUNT];      // abandoned pages of the main heap with free blocks
  mx_counters_t counters;                      // of heaps that are gone, and what was merged
  mx_heap_t main_heap;
  mx_arenas_t arenas;
};

extern mx_hidden mx_subproc_t mx_subproc_main;
// These serve threads that have no theap: all their requests are slow. The second one says that
// the thread has ended, so that only an allocation makes it a new one.
extern mx_hidden mx_theap_t mx_theap_empty;
extern mx_hidden mx_theap_t mx_theap_ended;
extern mx_hidden mx_thread_local mx_theap_t* mx_tls_theap;

mx_inline bool mx_heap_is_main(const mx_heap_t* heap) { return heap == &heap->subproc->main_heap; }

MX_BEGIN_DECLS
// ---- start and threads (thread.c) --------------------------------------------------------------
// Starts what allocation needs: facts, the page map, the main heap. Any number of times, from any
// thread; false when the OS gives no memory at all.
bool mx_heap_start(void);
// This thread's default theap, made when there is none; NULL when out of memory.
mx_theap_t* mx_thread_theap(void);
// This thread's theap of a heap; NULL when there is none and `create` is false or memory is out.
mx_theap_t* mx_thread_theap_of(mx_heap_t* heap, bool create);
// Ends this thread's use of the library: pages with live blocks are abandoned. Calls that follow
// on the same thread start anew.
void mx_thread_done(void* first_theap);
// In the child of a fork: threads other than this one are gone, locks are free.
void mx_heap_after_fork(void);
void mx_heap_before_fork(void);
void mx_heap_after_fork_parent(void);

// ---- a theap's pages (theap.c) -----------------------------------------------------------------
// Makes the bin's current page have a free block: the page, or NULL when out of memory. *is_zero:
// the first free block reads as zero but for its link.
mx_page_t* mx_theap_refill(mx_theap_t* theap, size_t bin, bool* is_zero);
// This thread is about to free into a page of its full list: the page is partial again.
void mx_theap_page_unfull(mx_theap_t* theap, mx_page_t* page);
// A page that is not current became empty by a free of this thread.
void mx_theap_page_emptied(mx_theap_t* theap, mx_page_t* page);
// Takes in a page that this code owns, so that its free blocks get used.
void mx_theap_adopt(mx_theap_t* theap, mx_page_t* page);
// Gives up the partial page of a bin that was taken in first.
void mx_theap_give_up_oldest(mx_theap_t* theap, size_t bin);
// Releases what is empty; with force also what is kept for a while.
void mx_theap_collect(mx_theap_t* theap, bool force);
// Gives up all pages.
void mx_theap_abandon_all(mx_theap_t* theap);
// Work of every few slow visits.
void mx_theap_housekeeping(mx_theap_t* theap);
// Moves the hot list of a bin back into its page, so that the page's counts are exact.
void mx_theap_flush_head(mx_theap_t* theap, size_t bin);

// ---- hand-over (adopt.c) -----------------------------------------------------------------------
// Makes a page for a heap out of fresh slices; NULL when out of memory. The caller owns it.
mx_page_t* mx_page_fresh(mx_heap_t* heap, size_t bin);
// Releases an owned page that holds no block.
void mx_page_release(mx_page_t* page);
// Gives an owned page to nobody, to be found again by its free blocks, if it has any.
void mx_page_abandon(mx_page_t* page);
// Gives up a page without a free block. False: it got one meanwhile, and stays the caller's.
bool mx_page_abandon_full(mx_page_t* page, uintptr_t tid);
// Finds an abandoned page of the heap with free blocks, and owns it; or NULL.
mx_page_t* mx_page_reclaim(mx_heap_t* heap, size_t bin);
// A free from outside found a page abandoned, and this code owns it now.
void mx_page_claimed_by_free(mx_page_t* page);
// Enters and removes a page in its heap's list (nothing to do for a main heap).
void mx_heap_link_page(mx_heap_t* heap, mx_page_t* page);
void mx_heap_unlink_page(mx_heap_t* heap, mx_page_t* page);
MX_END_DECLS

#endif
