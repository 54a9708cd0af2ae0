// SPDX-License-Identifier: MIT
// Empty pages that a theap keeps, on their partial lists, as if they had live blocks.
//
// A steady program empties and fills pages all the time. Each page that goes to the arena and comes
// back changes a dozen words that all threads share, and other OS pages are touched. So some are
// kept: a share of what is in use for RETAIN_MSECS, and more for a moment, for programs that free
// all of a phase and allocate it again.
//
// What is kept beyond the share is pages of one slice that were used up before they became empty,
// and it keeps nobody from memory: a bin that needs a new page gets the one that was emptied last,
// whatever its size was, and where other slices are taken for pages the oldest goes to the arena.
#include "retained.h"

#include "../base/options.h"
#include "../os/os.h"
#include "../page/blocks.h"
#include "../page/holes.h"
#include "adopt.h"
#include "theap_lists.h"

#define RETAIN_MSECS 250  // how long an empty page is kept
#define RETAIN_SLICES 2   // the share: this,
#define RETAIN_SHARE 16   // and this part of all slices in use, divided by the threads
#define BEYOND_MSECS 2    // how long one beyond the share is kept
#define BEYOND_SLICES 48  // so many slices are kept at most, or the share, if that is more

void mx_retained_forget(mx_theap_t* theap, mx_page_t* page) {
  mx_check(page->retained_slot <= MX_RETAINED_MAX);
  if (page->retained_slot == 0) return;
  mx_check(theap->retained.pages[page->retained_slot - 1] == page);
  theap->retained.pages[page->retained_slot - 1] = NULL;
  mx_check(theap->retained.slices >= page->slice_count);
  theap->retained.slices -= page->slice_count;
  page->retained_slot = 0;
}

void mx_retained_release(mx_theap_t* theap, mx_page_t* page) {
  mx_check(page->used == 0 && mx_page_theap(page) == theap);
  mx_retained_forget(theap, page);
  mx_partial_remove(theap, page);
  mx_page_release(page);
}

static bool is_beyond(const mx_theap_t* theap) {
  return theap->retained.slices > theap->retained.share;
}

// Lets go of kept pages, the oldest first: those whose time is over, and as many as it takes to
// have `excess` slices less.
static void let_go_of(mx_theap_t* theap, uint32_t now, int64_t excess) {
  for (; theap->retained.slices > 0; theap->retained.oldest++) {
    const uint32_t slot = theap->retained.oldest % MX_RETAINED_MAX;
    mx_page_t* const page = theap->retained.pages[slot];
    if (page == NULL) continue;
    const int32_t left = (int32_t)(theap->retained.until[slot] - now);
    if (excess <= 0 && left > (is_beyond(theap) ? RETAIN_MSECS - BEYOND_MSECS : 0)) return;
    excess -= page->slice_count;
    mx_retained_release(theap, page);
  }
}

void mx_retained_age(mx_theap_t* theap, uint32_t now) { let_go_of(theap, now, 0); }

void mx_retained_release_all(mx_theap_t* theap) { let_go_of(theap, 0, INT64_MAX); }

// Of such a page it is known that all of it was needed. It may start anew just now (see holes.h).
static bool is_used_up(const mx_page_t* page) {
  return page->slice_count == 1 && mx_peek_uint32(&page->capacity) == page->reserved;
}

// How many slices may be kept with this page, and notes the share. Beyond the share all threads
// keep no more than may wait in the arenas (arena/purge.c), and nothing where half as much does: so
// a thread that frees all that it has and sleeps keeps little more.
static int64_t most_with(mx_theap_t* theap, const mx_page_t* page) {
  const mx_arenas_t* const arenas = &theap->subproc->arenas;
  const int64_t in_use = mx_load_relaxed(&arenas->in_use);
  const int64_t counted = mx_load_relaxed(&theap->subproc->main_heap.counters.threads.current);
  const int64_t threads = mx_max(counted, 1);
  const int64_t share = RETAIN_SLICES + in_use / (RETAIN_SHARE * threads);
  theap->retained.share = (uint32_t)share;
  const int64_t all = mx_arenas_may_wait(arenas);
  if (!is_used_up(page) || mx_option(purge_delay) == 0) return share;
  if (mx_load_relaxed(&arenas->purgeable) > all / 2) return share;
  const int64_t beyond = all / threads;
  return mx_max(share, beyond < BEYOND_SLICES ? beyond : BEYOND_SLICES);
}

static bool is_retained(mx_theap_t* theap, mx_page_t* page) {
  mx_check(page->used == 0 && page->retained_slot == 0);
  if (theap->bins.current[page->bin] == &mx_page_none) return false;
  const int64_t most = most_with(theap, page);
  // No others go for one that is not kept, nor many for one that was hardly used.
  if (page->slice_count > most) return false;
  if (is_beyond(theap) && page->slice_count == 1 && !is_used_up(page)) return false;
  const uint32_t now = (uint32_t)mx_os_clock_msecs();
  let_go_of(theap, now, (int64_t)theap->retained.slices + page->slice_count - most);
  const uint32_t slot = theap->retained.next % MX_RETAINED_MAX;
  if (theap->retained.pages[slot] != NULL) mx_retained_release(theap, theap->retained.pages[slot]);
  if (theap->retained.slices == 0) theap->retained.oldest = theap->retained.next;
  const uint32_t last_turn = theap->retained.next - (MX_RETAINED_MAX - 1);
  if ((int32_t)(last_turn - theap->retained.oldest) > 0) theap->retained.oldest = last_turn;
  mx_counter_step_own(&theap->counted.retires);
  theap->retained.next++;
  mx_check(theap->retained.next - theap->retained.oldest <= MX_RETAINED_MAX);
  theap->retained.pages[slot] = page;
  theap->retained.until[slot] = now + RETAIN_MSECS;
  theap->retained.slices += page->slice_count;
  page->retained_slot = (uint8_t)(slot + 1);
  return true;
}

void mx_retained_put(mx_theap_t* theap, mx_page_t* page) {
  if (!is_retained(theap, page)) mx_retained_release(theap, page);
}

// Builds that check what is in free blocks keep it.
#define BEGINS_ANEW (MX_HOLES && !MX_RANDOM_ORDER)

void mx_retained_begin(mx_theap_t* theap, mx_page_t* page) {
  // Its list has the order in which it was emptied, which may be any.
  const bool is_kept = (page->retained_slot != 0 && page->used == 0);
  if (BEGINS_ANEW && is_kept && is_used_up(page) && !mx_page_has_holes(page)) {
    page->capacity = 0;
    page->is_final = 0;
    page->free = NULL;
  }
  mx_retained_forget(theap, page);
  mx_check(page->retained_slot == 0);
}

// A page of a slice that is kept, the latest or the oldest; or NULL.
static mx_page_t* find_kept(const mx_theap_t* theap, bool is_latest) {
  const mx_theap_retained_t* const retained = &theap->retained;
  for (uint32_t i = 0; i < MX_RETAINED_MAX; i++) {
    const uint32_t at = (is_latest ? retained->next - 1 - i : retained->oldest + i);
    mx_page_t* const page = retained->pages[at % MX_RETAINED_MAX];
    if (page != NULL && mx_page_slices_for(page->block_size) == 1) return page;
  }
  return NULL;
}

// As long as the record is neither the one page nor the other, no address leads to it: the child of
// a fork just then finds a slice of which no page is known.
static void become(mx_heap_t* heap, mx_page_t* page, size_t bin) {
  mx_check(page->used == 0 && page->slice_count == 1 && mx_page_heap(page) == heap);
  uint8_t* const slice = mx_arena_slice(page->arena, page->slice_index);
  const mx_slices_t slices = {page->arena, page->slice_index, 1, slice, false};
  mx_heap_unlink_page(page);
  mx_pagemap_set(slice, 1, NULL);
  mx_fence_seq_cst();
  // As of memory that was used before: its page may be larger than it will need.
  mx_bits_set(page->arena->dirty, page->slice_index, 1);
  mx_page_init(page, &slices, mx_bin_size(bin), bin, heap);
  mx_pagemap_set(slice, 1, page);  // the map has had the entry
  mx_heap_link_page(heap, page);
}

mx_page_t* mx_retained_convert(mx_theap_t* theap, size_t bin) {
  if (!BEGINS_ANEW || !is_beyond(theap) || !mx_heap_is_main(theap->heap)) return NULL;
  if (mx_page_slices_for(mx_bin_size(bin)) > 1) return NULL;
  mx_page_t* const page = find_kept(theap, true);
  // A heap that was deleted may have left pages of an arena that is for others.
  if (page == NULL || page->arena->is_exclusive || !mx_page_hold(page)) return NULL;
  mx_retained_forget(theap, page);
  mx_partial_remove(theap, page);
  become(theap->heap, page, bin);
  return page;
}

void mx_retained_make_up(mx_theap_t* theap) {
  if (!is_beyond(theap)) return;
  mx_page_t* const page = find_kept(theap, false);
  if (page != NULL) mx_retained_release(theap, page);
}
