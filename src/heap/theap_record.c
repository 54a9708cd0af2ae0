// SPDX-License-Identifier: MIT
// The records of theaps: their pool, and their places in the lists of heaps and threads.
#include <string.h>

#include "../mem/vmem.h"
#include "../os/os.h"
#include "theap_record.h"

// ---- theap records -----------------------------------------------------------------------------

static mx_at_start mx_lock_t theap_records_lock;
static mx_at_start mx_theap_t* theap_records;

// Of most programs the only one: no metadata is mapped for it, unless it has to lie between guards.
static mx_at_start mx_aligned(MX_CACHE_LINE) mx_theap_t own_record;
static mx_at_start bool is_own_taken;

#define NONE1 &mx_page_none,
#define NONE2 NONE1 NONE1
#define NONE8 NONE2 NONE2 NONE2 NONE2
#define NONE64 NONE8 NONE8 NONE8 NONE8 NONE8 NONE8 NONE8 NONE8
MX_BEGIN_SPARSE
// Nobody looks further than at its front.
mx_at_start mx_theap_t mx_theap_empty = {{{NONE64 NONE64 NONE8 NONE2}}};
MX_END_SPARSE
mx_static_assert(MX_BIN_COUNT == 64 + 64 + 8 + 2 + (MX_PADDING ? 1 : 0),
                 "every bin of the empty theap has a page, but for the last one with canaries");

// Whole OS pages: of a thread that does little only one is touched, as the next record begins as
// far into its first one as this does.
static size_t record_size(void) {
  const size_t size = sizeof(mx_theap_t);
  return mx_os_is_scarce() ? size : mx_align_up(size, 4 * MX_KIB);
}

static mx_theap_t* fresh_theap_record(void) {
  mx_lock_acquire(&theap_records_lock);
  const bool takes_own = (!MX_GUARD_METADATA && !is_own_taken);
  is_own_taken |= takes_own;
  mx_lock_release(&theap_records_lock);
  return takes_own ? &own_record : (mx_theap_t*)mx_meta_alloc(record_size());
}

mx_theap_t* mx_theap_record(void) {
  mx_lock_acquire(&theap_records_lock);
  mx_theap_t* theap = theap_records;
  if (theap != NULL) theap_records = theap->links.next_in_heap;
  mx_check(theap == NULL || mx_load_relaxed(&theap->heap) == NULL);
  mx_lock_release(&theap_records_lock);
  if (theap != NULL) return theap;
  theap = fresh_theap_record();
  if (theap == NULL) return NULL;
  for (size_t bin = 0; bin < MX_BIN_COUNT; bin++) {
    theap->bins.front[bin] = theap->bins.current[bin] = &mx_page_none;
  }
  return theap;
}

// ---- theaps of threads that went on after their end --------------------------------------------

// At most one theap for each id that a thread ever had: lists by a hash of the id.
#define AFTER_END_LISTS 64
static mx_at_start mx_theap_t* after_end_theaps[AFTER_END_LISTS];

// The place of a thread's theap, or where it would be entered.
static mx_theap_t** after_end_place(uintptr_t tid) {
  const uint64_t hash = (uint64_t)(tid & ~MX_OWNER_TAGS) * 0x9E3779B97F4A7C15u;
  mx_theap_t** at = &after_end_theaps[(hash >> 32) % AFTER_END_LISTS];
  while (*at != NULL && (((*at)->tid ^ tid) & ~MX_OWNER_TAGS) != 0) at = &(*at)->thread.after_end;
  return at;
}

static void remove_after_end(mx_theap_t* theap) {
  mx_check(mx_lock_is_mine(&theap_records_lock) && *after_end_place(theap->tid) == theap);
  *after_end_place(theap->tid) = theap->thread.after_end;
  theap->thread.after_end = NULL;
  theap->thread.is_after_end = false;
}

void mx_theap_enter_after_end(mx_theap_t* first) {
  mx_check(first == first->first && first->tid != 0);
  mx_lock_acquire(&theap_records_lock);
  mx_check(*after_end_place(first->tid) == NULL);
  first->thread.is_after_end = true;
  *after_end_place(first->tid) = first;
  mx_lock_release(&theap_records_lock);
}

mx_theap_t* mx_theap_take_after_end(uintptr_t tid) {
  mx_lock_acquire(&theap_records_lock);
  mx_theap_t* const theap = *after_end_place(tid);
  if (theap != NULL) remove_after_end(theap);
  mx_lock_release(&theap_records_lock);
  return theap;
}

void mx_theap_recycle(mx_theap_t* theap) {
  mx_check(mx_load_relaxed(&theap->heap) == NULL);
  mx_check(theap->retained.slices == 0);
  mx_lock_acquire(&theap_records_lock);
  if (theap->thread.is_after_end) remove_after_end(theap);
  theap->sampling.is_on = false;  // without pages its front is empty already
  theap->sampling.credit = 0;
  theap->sampling.seen = 0;
  theap->links.next_in_heap = theap_records;
  theap_records = theap;
  mx_lock_release(&theap_records_lock);
}

void mx_theap_wipe(mx_theap_t* theap) {
  memset(&theap->lists, 0, sizeof(theap->lists));
  memset(theap->retained.pages, 0, sizeof(theap->retained.pages));
  if (MX_MAGAZINES && theap->magazines != NULL) {
    memset(theap->magazines, 0, MX_MAGAZINE_COUNT * sizeof(mx_magazine_t));
  }
  theap->retained.slices = 0;
  theap->collecting.at = NULL;
  memset(&theap->spares, 0, sizeof(theap->spares));
  for (size_t bin = 0; bin < MX_BIN_COUNT; bin++) mx_theap_clear_current(theap, bin);
}

// ---- binding -----------------------------------------------------------------------------------

void mx_theap_link(mx_heap_t* heap, mx_theap_t* theap) {
  mx_check(mx_lock_is_mine(&heap->lock));
  mx_check(heap->theaps == NULL || heap->theaps->links.prev_in_heap == NULL);
  // When a heap is deleted, this runs beside the theap's own thread, and changes nothing. A handler
  // that forks finds in the list only what has one.
  if (theap->subproc != heap->subproc) theap->subproc = heap->subproc;
  mx_fence_compiler();
  theap->links.prev_in_heap = NULL;
  theap->links.next_in_heap = heap->theaps;
  if (heap->theaps != NULL) heap->theaps->links.prev_in_heap = theap;
  heap->theaps = theap;
  mx_count_add_locked(&heap->counters.theaps, 1);
  mx_store_release(&theap->heap, heap);
}

static void hand_over(mx_atomic(int64_t)* to, mx_atomic(int64_t)* own) {
  mx_counter_add(to, mx_load_relaxed(own));
  mx_store_relaxed(own, (int64_t)0);
}

void mx_theap_unlink(mx_heap_t* heap, mx_theap_t* theap) {
  mx_check(mx_lock_is_mine(&heap->lock));
  hand_over(&heap->counters.pages_reclaim_on_free, &theap->counted.reclaims);
  hand_over(&heap->counters.pages_extended, &theap->counted.extends);
  hand_over(&heap->counters.pages_retire, &theap->counted.retires);
  mx_theap_t *const next = theap->links.next_in_heap, *const prev = theap->links.prev_in_heap;
  mx_check(prev == NULL ? heap->theaps == theap : prev->links.next_in_heap == theap);
  mx_check(next == NULL || next->links.prev_in_heap == theap);
  if (prev != NULL) prev->links.next_in_heap = next;
  else heap->theaps = next;
  if (next != NULL) next->links.prev_in_heap = prev;
  mx_count_add_locked(&heap->counters.theaps, -1);
}

// The theap's lock is held, so the heap can change in one way only: from one that is deleted to the
// main one, under the former's lock.
void mx_theap_unbind(mx_theap_t* theap) {
  mx_check(mx_lock_is_mine(&theap->lock));
  for (mx_heap_t* heap; (heap = mx_load_relaxed(&theap->heap)) != NULL;) {
    mx_lock_acquire(&heap->lock);
    if (mx_load_relaxed(&theap->heap) == heap) {
      mx_theap_unlink(heap, theap);
      mx_store_relaxed(&theap->heap, (mx_heap_t*)NULL);
    }
    mx_lock_release(&heap->lock);
  }
}

void mx_theap_orphan(mx_theap_t* theap) {
  mx_check(theap->first != NULL);
  if (theap->links.is_orphan) return;
  theap->links.is_orphan = true;
  mx_theap_t* const first = theap->first;
  mx_theap_t* head = mx_load_relaxed(&first->thread.orphans);
  do theap->links.next_orphan = head;
  while (!mx_cas_weak_acq_rel(&first->thread.orphans, &head, theap));
}

bool mx_theap_visit_locks(mx_lock_visit_fn* visit) { return visit(&theap_records_lock); }
