// SPDX-License-Identifier: MIT
// What a free does that took a page over: keep it for the freeing thread, or hand it on.
#include <limits.h>

#include "../base/options.h"
#include "../os/thread.h"
#include "../page/remote.h"
#include "adopt.h"
#include "claim.h"
#include "theap.h"
#include "thread_life.h"

// Pages of one bin that a thread keeps which frees into them but does not allocate from the bin,
#define FREER_PAGES 1
// and partial pages of a bin beside which one that allocates from it takes none of others'.
#define ENOUGH_PAGES 4

// Whether a thread takes a page in that it freed into: always its own former ones; one of others
// as long as it has few of the size. A thread that does not allocate from the bin has no use for
// the blocks, only for freeing more of them cheaply: it has one, in exchange for the one before.
// Whoever has more than enough would hoard, with what a page's former thread frees, while that
// thread makes new pages: so others get them, unless the option says that all are taken.
static bool wants(mx_theap_t* theap, const mx_page_t* page) {
  const long policy = mx_option(page_reclaim_on_free);
  if (theap == NULL || policy < 0) return false;
  if (mx_page_theap(page) == theap) return true;
  if (policy == 0 && theap->first->thread.is_pooled) return false;
  const bool allocates = (theap->bins.current[page->bin] != &mx_page_none);
  const long most = (!allocates ? FREER_PAGES : policy == 0 ? ENOUGH_PAGES : LONG_MAX);
  long limit = mx_option(page_cross_thread_max_reclaim);
  if (limit > most) limit = most;
  if (policy == 1 && limit == 0) limit = FREER_PAGES;
  if (limit <= 0) return false;
  if ((long)theap->lists.partial_count[page->bin] < limit) return true;
  if (allocates && policy == 0) return false;
  mx_theap_give_up_oldest(theap, page->bin);
  return true;
}

static void take_or_abandon(mx_page_t* page) {
  mx_check((mx_load_relaxed(&page->remote) & MX_OWNED) != 0);
  mx_check(!mx_page_is_huge(page));
  mx_page_own_again(page);
  mx_page_collect(page);
  if (page->used == 0) {
    mx_page_release(page);
    return;
  }
  // A thread that only frees gets a theap, too: then all but the first free of a page are cheap.
  if (mx_tls_theap == &mx_theap_empty && !mx_tls_has_ended) mx_thread_theap();
  mx_theap_t* const theap = mx_thread_theap_of(mx_page_heap(page), false);
  if (mx_page_is_closed(page) || !wants(theap, page)) {
    mx_page_abandon(page);
    return;
  }
  mx_counter_step_own(&theap->counted.reclaims);
  mx_theap_adopt(theap, page);
}

void mx_page_claimed_by_free(mx_page_t* page) {
  mx_call_enter();
  take_or_abandon(page);
  mx_call_leave();
}
