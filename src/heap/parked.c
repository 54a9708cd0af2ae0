// SPDX-License-Identifier: MIT
// Theaps of threads that ended, kept as they are for the next threads of their sub-process.
//
// A program with a thread for each request has each thread make a page for every size that it
// uses, and abandon or release them all at its end. So the first theap of a thread that ends is
// parked: its pages stay in its lists, current ones stay current, and the next thread begins with
// what the last one had. Of each page only `owner` is written, twice: 0 when it is parked, since
// the id of the thread may come again elsewhere, and the next thread's when that takes it. The
// owned bit stays set, so that others' frees are pushed as always and nobody claims the page.
//
// A place is an atomic pointer: the thread that exchanges it for NULL owns the theap. When it was
// put there, and how many slices it has, are hints beside it.
//
// What is parked holds memory that others might use, so there is little of it: with the free slices
// that wait it is no more than the arenas let wait (see arena/purge.c), and what no thread took for
// a while is given up. Nor do more threads than theaps may be parked live with what they took: one
// that needs little of it, and does nothing more, keeps the rest from all others. A theap with many
// pages is not parked: a thread that takes it walks over all of them at its first allocation, and
// one that gives it up does so in the middle of one. Nor is one whose blocks are mostly in use:
// other threads free those, and take over their pages then.
//
// What waits is looked for by each thread every so many slow visits, and when it ends; the
// background thread in each round; and whatever gives back all at once (a forced collection, an
// allocation that would fail, a memory limit, the end of a sub-process, the child of a fork).
// Builds with canaries look at all blocks of a thread that ends before they park its theap, too.
#include "../base/options.h"
#include "../os/os.h"
#include "../os/thread.h"
#include "../page/remote.h"
#include "parked.h"
#include "theap.h"
#include "theap_record.h"

#define PARKED_MSECS 250    // how long a theap waits for a thread
#define PARKED_SLICES 128u  // in its pages, at the most: 8 MiB

// Threads that live with what they took, of all sub-processes.
static mx_at_start mx_atomic(uint32_t) takers;

// ---- the pages of a theap ----------------------------------------------------------------------

static void pass_page(mx_page_t* page, uintptr_t owner) {
  if (owner == 0) mx_store_relaxed(&page->owner, (uintptr_t)0);
  else mx_page_set_owner(page, owner);
}

static mx_noinline void pass_list(mx_page_t* page, uintptr_t owner) {
  for (; page != NULL; page = page->next) pass_page(page, owner);
}

// Makes all pages those of the thread `tid`, or nobody's, with 0.
static mx_noinline void pass_pages(mx_theap_t* theap, uintptr_t tid) {
  mx_check(mx_lock_is_mine(&theap->lock));
  const uintptr_t of_full = (tid == 0 ? 0 : tid | MX_OWNER_FULL);
  for (size_t bin = 1; bin < MX_BIN_HUGE; bin++) {
    mx_page_t* const current = theap->bins.current[bin];
    if (current != &mx_page_none) pass_page(current, tid);
    pass_list(theap->lists.partial[bin], tid);
    pass_list(theap->lists.full[bin], of_full);
  }
  theap->tid = tid;
}

// What the pages of a theap have.
typedef struct holding_s {
  size_t slices;
  size_t carved, live;  // bytes of blocks in pages that have any in use
} holding_t;

// An empty page that rests may start anew just now, and be carved by somebody else.
static void hold_page(holding_t* sum, const mx_page_t* page, uint32_t used) {
  sum->slices += page->slice_count;
  if (used == 0) return;
  const uint32_t freed = mx_remote_list_of(mx_load_relaxed(&page->remote)).count;
  sum->carved += page->capacity * page->block_size;
  sum->live += (used - mx_min(freed, used)) * page->block_size;
}

static mx_noinline void hold_pages(holding_t* sum, const mx_page_t* page) {
  for (; page != NULL && sum->slices <= PARKED_SLICES; page = page->next) {
    hold_page(sum, page, page->used);
  }
}

// Counted no further than up to what is too much.
static holding_t holding_of(const mx_theap_t* theap) {
  holding_t sum = {0, 0, 0};
  for (size_t bin = 1; bin < MX_BIN_HUGE && sum.slices <= PARKED_SLICES; bin++) {
    const mx_page_t* const current = theap->bins.current[bin];
    if (current != &mx_page_none) hold_page(&sum, current, current->used - 1);
    hold_pages(&sum, theap->lists.partial[bin]);
    hold_pages(&sum, theap->lists.full[bin]);
  }
  return sum;
}

// ---- giving up ---------------------------------------------------------------------------------

// A theap that this code took from its place.
static mx_noinline void end_parked(mx_theap_t* theap) {
  mx_lock_acquire(&theap->lock);
  if (mx_load_acquire(&theap->heap) != NULL) {
    pass_pages(theap, mx_thread_id());
    mx_check(theap == theap->first && theap->links.next_in_thread == NULL);
    mx_theap_abandon_all(theap);
    mx_theap_unbind(theap);
  }
  mx_lock_release(&theap->lock);
  mx_theap_recycle(theap);
}

// Those that have waited for `age` ms.
static mx_noinline bool give_up_older(mx_subproc_t* subproc, uint32_t now, uint32_t age) {
  bool is_any_left = false;
  for (size_t i = 0; i < MX_PARKED_MAX; i++) {
    mx_parked_t* const place = &subproc->parked[i];
    if (mx_load_relaxed(&place->theap) == NULL) continue;
    if ((uint32_t)(now - mx_load_relaxed(&place->since)) < age) {
      is_any_left = true;
      continue;
    }
    mx_theap_t* const theap = mx_take_any(&place->theap, (mx_theap_t*)NULL);
    if (theap != NULL) end_parked(theap);
  }
  return is_any_left;
}

bool mx_parked_give_up(mx_subproc_t* subproc, bool force) {
  if (!MX_PARKS) return false;
  mx_call_enter();
  const uint32_t now = (force ? 0 : (uint32_t)mx_os_clock_msecs());
  const bool is_any_left = give_up_older(subproc, now, force ? 0 : PARKED_MSECS);
  mx_call_leave();
  return is_any_left;
}

// ---- parking and taking ------------------------------------------------------------------------

static bool is_parkable(const mx_theap_t* first) {
  mx_check(first == first->first && first->links.next_in_thread == NULL);
  if (!MX_PARKS || mx_option(theap_retain) == 0 || mx_option(purge_delay) == 0) return false;
  // A theap that is sampled begins with an empty front.
  return !first->sampling.is_on && !first->thread.is_after_end;
}

// Whether it matters on which node a thread's memory is: then each makes pages of its own.
static bool has_nodes(const mx_heap_t* heap) {
  return heap->numa_node >= 0 || mx_option(arena_is_numa_local) != 0;
}

// Whether so many slices may wait beside those that do, and there is a place.
static bool parked_have_room(const mx_subproc_t* subproc, size_t slices) {
  size_t all = slices;
  bool has_place = false;
  if (slices > PARKED_SLICES) return false;
  for (size_t i = 0; i < MX_PARKED_MAX; i++) {
    const mx_parked_t* const place = &subproc->parked[i];
    if (mx_load_relaxed(&place->theap) != NULL) all += mx_load_relaxed(&place->slices);
    else if (i < (size_t)mx_option(theap_retain)) has_place = true;
  }
  if (!has_place) return false;
  const intptr_t free = mx_max(mx_load_relaxed(&subproc->arenas.purgeable), (intptr_t)0);
  return (intptr_t)all + free <= mx_arenas_may_wait(&subproc->arenas);
}

// The first place is taken first, so that the others come of age when fewer are needed.
static bool put_parked(mx_subproc_t* subproc, mx_theap_t* theap, size_t slices, uint32_t now) {
  const size_t most = (size_t)mx_option(theap_retain);
  mx_check(most <= MX_PARKED_MAX);
  mx_check(theap->tid == 0 && theap->spares.bytes == 0);
  for (size_t i = 0; i < most; i++) {
    mx_parked_t* const place = &subproc->parked[i];
    mx_theap_t* none = NULL;
    if (mx_load_relaxed(&place->theap) != NULL) continue;
    if (!mx_cas_strong_acq_rel(&place->theap, &none, theap)) continue;
    mx_store_relaxed(&place->since, now);
    mx_store_relaxed(&place->slices, (uint32_t)slices);
    return true;
  }
  return false;
}

bool mx_theap_park(mx_theap_t* first) {
  mx_subproc_t* const subproc = first->subproc;
  if (!is_parkable(first) || has_nodes(&subproc->main_heap)) return false;
  const uint32_t now = (uint32_t)mx_os_clock_msecs();
  give_up_older(subproc, now, PARKED_MSECS);
  mx_magazines_clear(first, true);
  mx_lock_acquire(&first->lock);
  const bool is_main = (mx_load_acquire(&first->heap) == &subproc->main_heap);
  const holding_t holding = holding_of(first);
  bool is_parked = (is_main && holding.live <= holding.carved / 2 &&
                    parked_have_room(subproc, holding.slices));
  if (is_parked) {
    if (MX_PADDING) mx_theap_verify(first);
    const uintptr_t tid = first->tid;
    pass_pages(first, 0);
    first->sampling.credit = 0;
    first->sampling.seen = 0;
    is_parked = put_parked(subproc, first, holding.slices, now);
    if (!is_parked) pass_pages(first, tid);
  }
  mx_lock_release(&first->lock);
  if (!is_parked) return false;
  mx_arenas_purge_tick(&subproc->arenas);
  mx_arenas_wake_background();
  return true;
}

void mx_theap_leave_takers(mx_theap_t* first) {
  if (!first->thread.was_parked) return;
  first->thread.was_parked = false;
  mx_check(mx_load_relaxed(&takers) > 0);
  mx_add_relaxed(&takers, (uint32_t)-1);
}

mx_theap_t* mx_theap_take_parked(mx_subproc_t* subproc) {
  if (!MX_PARKS || mx_load_relaxed(&takers) >= (uint32_t)mx_option(theap_retain)) return NULL;
  if (has_nodes(&subproc->main_heap)) {
    mx_parked_give_up(subproc, true);
    return NULL;
  }
  mx_theap_t* theap = NULL;
  for (size_t i = 0; theap == NULL && i < MX_PARKED_MAX; i++) {
    theap = mx_take_any(&subproc->parked[i].theap, (mx_theap_t*)NULL);
  }
  if (theap == NULL) return NULL;
  mx_lock_acquire(&theap->lock);
  const bool is_bound = (mx_load_acquire(&theap->heap) != NULL);
  mx_check(!is_bound || theap->tid == 0);
  if (is_bound) pass_pages(theap, mx_thread_id());
  mx_lock_release(&theap->lock);
  if (!is_bound) {
    mx_theap_recycle(theap);  // its sub-process was destroyed
    return NULL;
  }
  mx_add_relaxed(&takers, 1u);
  theap->thread.was_parked = true;
  return theap;
}

bool mx_theap_is_parked(const mx_theap_t* theap) {
  for (size_t i = 0; MX_PARKS && i < MX_PARKED_MAX; i++) {
    if (mx_load_relaxed(&theap->subproc->parked[i].theap) == theap) return true;
  }
  return false;
}
