// SPDX-License-Identifier: MIT
// What a free does that took a page over: keep it for the freeing thread, or hand it on.
#include "../base/options.h"
#include "../os/thread.h"
#include "../page/remote.h"
#include "adopt.h"
#include "claim.h"
#include "common.h"
#include "theap.h"
#include "thread_life.h"

// Pages of one bin that a thread keeps which frees into them but does not allocate from the bin.
#define FREER_PAGES 1
// A thread that allocates from the bin and has so many partial pages of it has enough,
#define ENOUGH_PAGES 4
// and may hoard where no more than this part of another page is free.
#define POOR_SHARE 16

// Whether the thread that had an abandoned page goes on, so that it may want it back.
mx_unsynchronised static bool has_former_thread(const mx_page_t* page) {
  const mx_theap_t* const former = mx_page_theap(page);
  return former != NULL && mx_load_relaxed(&former->heap) == mx_page_heap(page) &&
         mx_peek_word(&former->tid) != 0;
}

// What a thread takes that has enough is emptied by its former thread, which makes new pages
// meanwhile, as it finds nothing free. Where a page becomes richer than that, nobody fetched it.
static bool would_hoard(const mx_page_t* page) {
  mx_check(page->used > 0 && page->used <= page->capacity);
  const uint32_t given = page->capacity - page->used;
  return given <= mx_max(page->reserved / POOR_SHARE, 1) && has_former_thread(page);
}

// Whether a thread takes a page in that it freed into: always its own former ones; one of others
// if it has fewer than it may, or in exchange for the last one it has. A thread that does not
// allocate from the bin has no use for the blocks, only for freeing more of them cheaply.
static bool wants(mx_theap_t* theap, const mx_page_t* page) {
  const long policy = mx_option(page_reclaim_on_free);
  if (theap == NULL || policy < 0) return false;
  if (mx_page_theap(page) == theap) return true;
  if (policy == 0 && theap->first->thread.is_pooled) return false;
  if (mx_common_is_passed(theap->heap, page->bin)) return false;
  const bool allocates = (theap->bins.current[page->bin] != &mx_page_none);
  const bool is_common = (mx_page_theap(page) == NULL && mx_common_is_due(theap->heap));
  if (!allocates && is_common) return false;
  long limit = mx_option(page_cross_thread_max_reclaim);
  if (!allocates && limit > FREER_PAGES) limit = FREER_PAGES;
  if (policy == 1 && limit == 0) limit = FREER_PAGES;
  if (limit <= 0) return false;
  const long count = (long)theap->lists.partial_count[page->bin];
  if (policy == 0 && allocates && count >= ENOUGH_PAGES && would_hoard(page)) return false;
  if (count >= limit) mx_theap_give_up_last(theap, page->bin);
  return true;
}

static void take_or_abandon(mx_page_t* page) {
  mx_check((mx_load_relaxed(&page->remote) & MX_OWNED) != 0);
  mx_check(!mx_page_is_huge(page));
  mx_page_collect(page);
  if (page->used == 0) {
    mx_page_own_again(page);
    mx_page_release(page);
    return;
  }
  // A thread that only frees gets a theap, too: then all but the first free of a page are cheap.
  if (mx_tls_theap == &mx_theap_empty && !mx_tls_has_ended) mx_thread_theap();
  mx_theap_t* const theap = mx_thread_theap_of(mx_page_heap(page), false);
  if (mx_page_is_closed(page) || !wants(theap, page)) {
    mx_page_abandon_again(page);
    return;
  }
  mx_page_own_again(page);
  mx_counter_step_own(&theap->counted.reclaims);
  mx_theap_adopt(theap, page);
}

void mx_page_claimed_by_free(mx_page_t* page) {
  mx_check((mx_load_relaxed(&page->owner) & ~MX_OWNER_TAGS) == 0);
  mx_call_enter();
  mx_common_note_free(mx_tls_theap->first, page->bin);
  take_or_abandon(page);
  mx_call_leave();
}
