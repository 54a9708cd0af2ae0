// SPDX-License-Identifier: MIT
// The ends of first-class heaps: giving them up with or without their blocks.
//
// Deleting. Other threads may go on freeing the heap's blocks, and own pages of it, so nothing is
// taken from them: under the heap's lock every theap of the heap is bound to the main heap and
// every page gets the main heap. Both keep their lists. A thread that needs a page's heap to be
// right (to take the page out of the heap's list, to count it) takes the lock of the heap that it
// read and looks again; the record of a heap that is gone stays a record, so the lock is there to
// be taken. Pages that were abandoned are claimed here and abandoned anew, since a main heap finds
// them in another way; one that is being abandoned just now is caught by either side (see adopt.c).
//
// Destroying. By contract nobody else allocates from the heap or frees into it, but threads that
// once used it may end or collect, which walks their theaps. So a theap has a lock: whoever walks
// it holds that, and whoever destroys takes the locks of all the heap's theaps before it empties
// them. It only tries them, because a holder may in turn wait for the heap's lock. Nobody makes
// holes meanwhile.
#include <string.h>

#include "../base/hooks.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "../os/tags.h"
#include "../os/thread.h"
#include "../page/holes.h"
#include "../page/live.h"
#include "../page/remote.h"
#include "adopt.h"
#include "heap_end.h"
#include "heap_record.h"
#include "os_pages.h"
#include "theap_record.h"
#include "thread_life.h"

// ---- deleting ----------------------------------------------------------------------------------

// Under both locks, as is the moving of the counters that follows from it.
static void move_theaps(mx_heap_t* heap, mx_heap_t* main_heap) {
  mx_check(mx_lock_is_mine(&heap->lock) && heap != main_heap);
  mx_lock_acquire(&main_heap->lock);
  for (mx_theap_t* theap; (theap = heap->theaps) != NULL;) {
    mx_theap_unlink(heap, theap);
    mx_theap_link(main_heap, theap);
    mx_theap_orphan(theap);
  }
  mx_counters_move(&main_heap->counters, &heap->counters, heap->bins, true);
  mx_lock_release(&main_heap->lock);
}

// The list of those pages that were abandoned, now owned by this code. It is made of the links that
// theaps use: nobody has such a page in a theap.
static mx_page_t* move_pages(mx_heap_t* heap, mx_heap_t* main_heap) {
  mx_check(mx_lock_is_mine(&heap->lock) && mx_heap_is_main(main_heap));
  mx_page_t* claimed = NULL;
  for (mx_page_t *next = heap->pages, *page; (page = next) != NULL;) {
    // Up to the store the page cannot leave the list, since that takes the lock; behind it the
    // page's owner may release it, and the record serve another: so the link is read before.
    next = page->heap_next;
    mx_store_release(&page->heap, main_heap);
    mx_fence_seq_cst();  // pairs with that in was_moved
    if (!mx_remote_try_claim(page)) continue;
    page->next = claimed;
    claimed = page;
  }
  heap->pages = NULL;
  return claimed;
}

void mx_heap_delete(mx_heap_t* heap) {
  mx_check(!mx_heap_is_main(heap) && mx_load_relaxed(&heap->id) != MX_HEAP_GONE);
  mx_heap_t* const main_heap = &heap->subproc->main_heap;
  mx_call_enter();
  mx_lock_acquire(&heap->lock);
  move_theaps(heap, main_heap);
  mx_page_t* next = move_pages(heap, main_heap);
  mx_lock_release(&heap->lock);
  for (mx_page_t* page; (page = next) != NULL;) {
    next = page->next;
    page->next = NULL;
    page->is_listed = 0;
    mx_page_collect(page);
    mx_page_abandon(page);
  }
  mx_heap_recycle(heap);
  mx_thread_absorb_orphans();
  mx_call_leave();
}

// ---- destroying --------------------------------------------------------------------------------

// Takes the heap's lock and those of all its theaps.
static void lock_with_theaps(mx_heap_t* heap) {
  for (unsigned turn = 0;; turn++) {
    mx_lock_acquire(&heap->lock);
    mx_theap_t* theap = heap->theaps;
    while (theap != NULL && mx_lock_try(&theap->lock)) theap = theap->links.next_in_heap;
    if (theap == NULL) return;
    // Its thread ends or collects just now.
    for (mx_theap_t* t = heap->theaps; t != theap; t = t->links.next_in_heap) {
      mx_lock_release(&t->lock);
    }
    mx_lock_release(&heap->lock);
    mx_counter_add(&heap->counters.heaps_delete_wait, 1);
    mx_pause(turn);
  }
}

// Empties the lists that a page can be on. Cheaper than to wipe whole theaps, which have hundreds.
static void forget_page(const mx_page_t* page) {
  mx_check(mx_lock_is_mine(&mx_page_heap(page)->lock));
  const size_t bin = page->bin;
  if (mx_page_is_huge(page) || mx_load_relaxed(&page->owner) == 0) return;
  mx_theap_t* const theap = mx_page_theap(page);
  mx_theap_clear_current(theap, bin);
  theap->lists.partial[bin] = theap->lists.full[bin] = NULL;
  theap->lists.partial_count[bin] = theap->lists.full_count[bin] = 0;
}

void mx_heap_drop_theaps(mx_heap_t* heap) {
  lock_with_theaps(heap);
  mx_check(mx_lock_is_mine(&heap->lock));
  for (const mx_page_t* p = heap->pages; p != NULL; p = p->heap_next) forget_page(p);
  for (mx_theap_t* theap; (theap = heap->theaps) != NULL;) {
    if (mx_heap_is_main(heap)) mx_theap_wipe(theap);
    mx_theap_retained_t* const retained = &theap->retained;
    if (retained->slices != 0) memset(retained->pages, 0, sizeof(retained->pages));
    retained->slices = 0;
    theap->collecting.list = 0;
    theap->collecting.at = NULL;
    mx_theap_unlink(heap, theap);
    mx_store_release(&theap->heap, (mx_heap_t*)NULL);
    mx_check(mx_lock_is_mine(&theap->lock));
    if (theap->links.is_orphan || !mx_thread_put_aside(theap)) mx_theap_orphan(theap);
    mx_lock_release(&theap->lock);
  }
}

// The pages go one by one under the lock, so that the child of a fork in between finds the others
// in a list, of which it may take them out.
static mx_page_t* pop_page(mx_heap_t* heap) {
  mx_lock_acquire(&heap->lock);
  mx_page_t* const page = heap->pages;
  if (page != NULL) {
    heap->pages = page->heap_next;
    if (page->heap_next != NULL) page->heap_next->heap_prev = NULL;
    page->heap_next = NULL;
  }
  mx_lock_release(&heap->lock);
  return page;
}

void mx_heap_destroy(mx_heap_t* heap) {
  mx_subproc_t* const subproc = heap->subproc;
  mx_call_enter();
  // A page that its owner released while it was lent is about to be released by the borrower.
  mx_holes_forbid();
  mx_heap_drop_theaps(heap);
  mx_check(heap->theaps == NULL);
  mx_counters_move(&subproc->counters, &heap->counters, heap->bins, false);
  mx_lock_release(&heap->lock);
  for (mx_page_t* page; (page = pop_page(heap)) != NULL;) {
    mx_store_relaxed(&page->remote, MX_OWNED);
    if (mx_unlikely(mx_page_has_note(page))) mx_page_end_note(page);
    if (mx_has_tags() && !mx_page_is_huge(page)) mx_page_end_tags(page);
    if (mx_heap_cache_put(heap, page)) continue;
    if (mx_page_is_huge(page)) {
      mx_huge_page_drop(subproc, page);
      continue;
    }
    mx_live_clear(page);
    mx_page_drop(&subproc->arenas, page);
  }
  mx_holes_allow();
  mx_arenas_purge_tick(&subproc->arenas);
  mx_heap_recycle(heap);
  mx_call_leave();
}
