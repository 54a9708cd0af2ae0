// SPDX-License-Identifier: MIT
// A thread-heap's pages: which page a bin allocates from, which come next, which go.
//
// A bin has one current page, a list of partial ones and a short list of full ones. The current
// page leaves when nothing can be had from it: full, it joins the full list, whose oldest page is
// abandoned to whoever frees into it first; with room still to carve, it waits behind the partial
// pages with freed blocks, since their memory was touched before. So does a page that was full and
// gets its first block back: when its turn comes it has more. Empty pages are kept for a
// while, within a bound.
//
// Pages that are not current are at rest, and others may make holes in them (see page/holes.h). One
// that is lent out just then is passed over.
#include "../base/hooks.h"
#include "../base/options.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "../page/delay.h"
#include "../page/ends.h"
#include "../page/holes.h"
#include "../page/remote.h"
#include "adopt.h"
#include "retained.h"
#include "theap.h"
#include "theap_lists.h"
#include "transfer.h"
#include "trim.h"

#define HARDLY_MSECS 125          // between two rounds that look at hardly carved pages as well
#define VISITS_PER_ROUND 32       // slow visits between two rounds of housekeeping
#define VISITS_PER_HEARTBEAT 100  // and between two calls of the deferred-free function
#define FULL_LOOKS 16             // full pages that a search for free blocks looks at
#define WORTH_SHARE 40            // a page is worth a visit with more than this part of its
#define WORTH_MOST 8u             // blocks free, or than this many
#define SPARSE_SHARE 4            // and nearly empty with more than this part
#define MANY_PAGES 32            // partial pages of a bin beside which one more hardly counts
#define COLLECT_SHARE 16          // a pass begins when what is committed has grown by this part
#define COLLECT_LEAST (4 * MX_MIB)  // and by so much since the last one
#define COLLECT_PAGES 8           // pages that a visit collects in, once that is due: one that
                                  // gives something back counts as so many

// An empty page that rests may be lent, and start anew just now: its list says nothing.
static bool has_block(mx_page_t* page) {
  mx_check(page != &mx_page_none);
  return page->used == 0 || page->free != NULL || mx_page_collect_remote(page);
}

void mx_theap_page_emptied(mx_theap_t* theap, mx_page_t* page) {
  mx_check(page->used == 0 && mx_page_theap(page) == theap);
  mx_retained_put(theap, page);
}

// ---- the current page --------------------------------------------------------------------------

static void make_current(mx_theap_t* theap, mx_page_t* page) {
  mx_check(mx_page_theap(page) == theap && theap->bins.current[page->bin] == &mx_page_none);
  mx_theap_set_current(theap, page->bin, page);
  page->used++;
}

// Beyond a few, the full page that waited longest is abandoned to whoever frees into it first.
static void abandon_oldest_full(mx_theap_t* theap, size_t bin) {
  mx_check(theap->lists.full_count[bin] > 0);
  mx_page_t* const page = mx_list_last(theap->lists.full[bin]);
  mx_full_remove(theap, page);
  if (!mx_page_abandon_full(page, theap->tid)) mx_partial_push_head(theap, page);
}

// The current page can give nothing: it leaves.
static void leave_current(mx_theap_t* theap, mx_page_t* page) {
  mx_check(theap->bins.current[page->bin] == page && page->used > 0);
  const size_t bin = page->bin;
  mx_theap_clear_current(theap, bin);
  page->used--;
  mx_page_rest(page);
  if (mx_page_can_extend(page)) {
    mx_partial_push_tail(theap, page);
    return;
  }
  mx_list_push(&theap->lists.full[bin], page);
  mx_page_set_owner(page, theap->tid | MX_OWNER_FULL);
  const long count = (long)++theap->lists.full_count[bin];
  if (count > mx_option(page_full_retain)) abandon_oldest_full(theap, bin);
}

void mx_theap_page_unfull(mx_theap_t* theap, mx_page_t* page) {
  mx_check(mx_page_theap(page) == theap);
  mx_check((mx_load_relaxed(&page->owner) & MX_OWNER_FULL) != 0);
  mx_full_remove(theap, page);
  mx_partial_push_tail(theap, page);
  mx_arenas_wake_background();
}

void mx_theap_release_current(mx_theap_t* theap, size_t bin) {
  mx_page_t* const page = theap->bins.current[bin];
  mx_check(page != &mx_page_none && page->used == 1);
  mx_theap_clear_current(theap, bin);
  page->used = 0;
  mx_page_release(page);
}

static void shut(mx_theap_t* theap, size_t bin) {
  theap->trimming.shut[bin] = true;
  mx_fence_compiler();
  theap->bins.front[bin] = &mx_page_none;
}

// A current page counts itself as used, so no free() tells that it became empty: bins that a
// program has done with are found here. Whether a page that is empty in two rounds was used between
// them, nothing tells: so it is shut at the first, which lets the next request for its bin come by
// the slow path and open it. One that is shut still goes. One of which no more than an OS page is
// carved is as much work to make again and holds less, so that few rounds look at it: a buffer that
// grows by small steps passes through all bins, and so does the next one.
static void release_idle(mx_theap_t* theap, bool all) {
  for (size_t bin = 1; bin < MX_BIN_HUGE; bin++) {
    mx_page_t* const page = theap->bins.current[bin];
    if (page == &mx_page_none) continue;
    if (page->used > 1) {
      if (mx_unlikely(mx_has_bit(theap->trimming.slack, bin))) mx_theap_look_for_slack(theap, page);
    } else if (all || page->capacity * page->block_size > mx_facts.os_page) {
      if (theap->trimming.shut[bin]) mx_theap_release_current(theap, bin);
      else shut(theap, bin);
    }
  }
}

// Where addresses are scarce, a thread that wants more gives back what it has and does not use.
static void release_empty(mx_theap_t* theap) {
  mx_retained_release_all(theap);
  for (size_t bin = 1; bin < MX_BIN_HUGE; bin++) {
    if (theap->bins.current[bin]->used == 1) mx_theap_release_current(theap, bin);
  }
}

// A page of the full list that others freed into. Of a long list each search looks at a few.
static mx_page_t* pick_full(mx_theap_t* theap, size_t bin) {
  for (uint32_t n = mx_min(theap->lists.full_count[bin], FULL_LOOKS); n > 0; n--) {
    mx_page_t* const page = theap->lists.full[bin];
    if (!mx_page_collect_remote(page)) {
      mx_list_turn(&theap->lists.full[bin]);
      continue;
    }
    mx_full_remove(theap, page);
    if (mx_page_hold(page)) return page;
    mx_partial_push_head(theap, page);
  }
  return NULL;
}

// How many blocks a page has to give, with those that others freed. The `capacity` of an empty one
// is not to be read: it may start anew just now (see has_block).
static uint32_t blocks_to_give(const mx_page_t* page) {
  if (page->used == 0) return page->reserved;
  return page->capacity - page->used + mx_remote_count(page);
}

mx_noinline static bool is_worth_a_visit(const mx_page_t* page) {
  return blocks_to_give(page) > mx_min(page->reserved / WORTH_SHARE, WORTH_MOST);
}

// Whether the bin does better with another page than with the best of its partial ones: it has many
// of them, with few free blocks each.
mx_inline bool wants_another(const mx_theap_t* theap, size_t bin, const mx_page_t* best) {
  return mx_unlikely(theap->lists.partial_count[bin] >= MANY_PAGES) && !is_worth_a_visit(best) &&
         !mx_page_can_extend(best);
}

// The fuller one of two that are worth a visit, so that others may become empty; else the one with
// more to give.
static bool is_better(const mx_page_t* page, const mx_page_t* other) {
  const bool is_worth = is_worth_a_visit(page);
  if (is_worth != is_worth_a_visit(other)) return is_worth;
  return is_worth ? page->used > other->used : page->used < other->used;
}

static mx_page_t* take_partial(mx_theap_t* theap, mx_page_t* page) {
  if (!mx_page_hold(page)) return NULL;
  mx_retained_begin(theap, page);
  mx_partial_remove(theap, page);
  return page;
}

// Partial pages come in the order in which their first block was freed, so the first ones have the
// most to give. One that is nearly empty goes to the end: it may be empty before its turn comes
// again, and go. So do those of which none is worth a visit: what else they have may live on and
// on, and behind them are others.
static mx_page_t* pick_partial(mx_theap_t* theap, size_t bin) {
  mx_page_t* best = NULL;
  mx_page_t* next = theap->lists.partial[bin];
  long looks = 0;
  for (; next != NULL && looks < mx_option(page_max_candidates); looks++) {
    mx_page_t* const page = next;
    next = page->next;
    if (!MX_COUNTS_REMOTE && page->used > 0) mx_page_collect_remote(page);
    if (!has_block(page)) continue;
    const bool is_sparse = (blocks_to_give(page) > page->reserved / SPARSE_SHARE);
    if (best == NULL || is_better(page, best)) best = page;
    if (best == page && !is_sparse && is_worth_a_visit(page)) break;
    if (is_sparse && page == theap->lists.partial[bin]) mx_partial_turn(theap, bin);
  }
  if (best == NULL) best = theap->lists.partial[bin];
  if (best == NULL) return NULL;
  if (!wants_another(theap, bin, best)) return take_partial(theap, best);
  do {
    mx_partial_turn(theap, bin);
  } while (--looks > 0);
  return NULL;
}

static mx_page_t* new_page(mx_theap_t* theap, size_t bin) {
  mx_page_t* const page = mx_retained_convert(theap, bin);
  if (page != NULL) return page;
  mx_retained_make_up(theap);
  return mx_page_fresh(theap->heap, bin);
}

static mx_page_t* next_page(mx_theap_t* theap, size_t bin) {
  mx_check(theap->bins.current[bin] == &mx_page_none);
  mx_page_t* page = pick_partial(theap, bin);
  if (page == NULL) page = pick_full(theap, bin);
  if (page != NULL) return page;
  page = mx_page_reclaim(theap->heap, bin);
  if (page != NULL && !mx_page_hold(page)) {
    mx_theap_adopt(theap, page);
    page = NULL;
  }
  if (page == NULL) {
    if (mx_os_is_scarce()) release_empty(theap);
    page = new_page(theap, bin);
    if (page != NULL) mx_theap_expect_slack(theap, page);
    mx_subproc_trim(theap->subproc);
  }
  if (page == NULL) {
    page = theap->lists.partial[bin];
    return page == NULL ? NULL : take_partial(theap, page);
  }
  mx_page_set_theap(page, theap);
  mx_page_set_owner(page, theap->tid);
  return page;
}

bool mx_theap_extend(mx_theap_t* theap, mx_page_t* page, bool* is_zero) {
  const bool has_holes = mx_page_has_holes(page);
  if (!has_holes && mx_heap_grow_page(theap->heap, page)) mx_retained_make_up(theap);
  if (MX_HOLES) mx_theap_takes_memory(theap, page->bin, has_holes);
  if (!mx_page_extend(page, is_zero)) {
    if (!MX_PARTS || !mx_load_relaxed(&page->arena->has_parts)) return false;
    if (!mx_page_extend_scarce(theap->heap, page, is_zero)) return false;
  }
  mx_counter_step_own(&theap->counted.extends);
  return true;
}

// Whether the page gets new blocks although it may have freed ones: now and then, so that which
// comes next is not known.
static bool rather_carves(const mx_page_t* page) {
  if (page->free != NULL || page->capacity >= page->reserved) return false;
  return MX_RANDOM_ORDER && mx_page_random(page, (uint64_t)page->capacity << 32) % 8 == 0;
}

// Whether the first partial page of a bin is better than to carve more of the current one.
mx_inline bool has_other(mx_theap_t* theap, size_t bin) {
  mx_page_t* const other = theap->lists.partial[bin];
  return other != NULL && !mx_page_is_lent(other) && has_block(other) &&
         !wants_another(theap, bin, other);
}

bool mx_theap_has_block(mx_theap_t* theap, size_t bin) {
  mx_check(bin > 0 && bin < MX_BIN_HUGE);
  mx_page_t* const page = theap->bins.current[bin];
  return (page != &mx_page_none && has_block(page)) || has_other(theap, bin);
}

mx_page_t* mx_theap_refill(mx_theap_t* theap, size_t bin, bool* is_zero) {
  mx_check(bin > 0 && bin < MX_BIN_HUGE && theap->heap != NULL);
  *is_zero = false;
  for (;;) {
    mx_page_t* page = theap->bins.current[bin];
    if (page != &mx_page_none) {
      if (rather_carves(page) && mx_theap_extend(theap, page, is_zero)) return page;
      if (has_block(page)) return page;
      if (!has_other(theap, bin) && mx_theap_extend(theap, page, is_zero)) return page;
      // All that is left of it waits: it would be empty, and on the list of full ones.
      if (MX_QUARANTINE && page->used == 1 && mx_page_end_delay(page)) return page;
      leave_current(theap, page);
    }
    page = next_page(theap, bin);
    if (page == NULL) return NULL;
    make_current(theap, page);
    // Here and now: the other page, if there was one, may have been lent meanwhile.
    if (has_block(page) || mx_theap_extend(theap, page, is_zero)) return page;
  }
}

void mx_theap_adopt(mx_theap_t* theap, mx_page_t* page) {
  mx_check(theap->tid != 0 && page->retained_slot == 0);
  const bool was_ours = (mx_page_theap(page) == theap);
  mx_page_set_theap(page, theap);
  mx_page_set_owner(page, theap->tid);
  // What others allocated is freed soon, too, or never.
  if (was_ours) mx_partial_push_tail(theap, page);
  else mx_partial_push_head(theap, page);
  mx_arenas_wake_background();
}

void mx_theap_give_up_last(mx_theap_t* theap, size_t bin) {
  mx_check(theap->lists.partial_count[bin] > 0);
  mx_page_t* const page = mx_list_last(theap->lists.partial[bin]);
  mx_retained_forget(theap, page);
  mx_partial_remove(theap, page);
  mx_page_collect(page);
  mx_page_abandon(page);
}

// ---- verifying ---------------------------------------------------------------------------------
// Builds of debug level 3 do it at every heartbeat, when they collect and when a thread ends.

static bool is_own(const mx_theap_t* theap, const mx_page_t* page, size_t bin) {
  const uintptr_t owner = mx_load_relaxed(&page->owner) & ~MX_OWNER_TAGS;
  if (page->bin != bin || mx_page_theap(page) != theap) return false;
  if (mx_pagemap_get(page->start) != page) return false;
  return owner == (theap->tid & ~MX_OWNER_TAGS) && mx_page_is_valid(page);
}

mx_cold static bool is_list_valid(const mx_theap_t* theap, const mx_page_t* list, size_t bin,
                                  size_t most) {
  const mx_page_t* before = (list == NULL ? NULL : list->prev);
  size_t count = 0;
  for (const mx_page_t* page = list; page != NULL; before = page, page = page->next) {
    if (page->prev != before || ++count > most || !is_own(theap, page, bin)) return false;
    const uint32_t slot = page->retained_slot;
    if (slot != 0 && theap->retained.pages[slot - 1] != page) return false;
  }
  return count == most && (list == NULL || before == list->prev);
}

static bool are_full(const mx_page_t* page) {
  for (; page != NULL; page = page->next) {
    if (page->free != NULL || (mx_load_relaxed(&page->owner) & MX_OWNER_FULL) == 0) return false;
  }
  return true;
}

mx_cold bool mx_theap_is_valid(const mx_theap_t* theap) {
  for (size_t bin = 1; bin < MX_BIN_HUGE; bin++) {
    const mx_page_t* const current = theap->bins.current[bin];
    if (theap->bins.front[bin] != current && !mx_theap_is_behind(theap, bin)) return false;
    if (current != &mx_page_none && (current->used == 0 || !is_own(theap, current, bin))) {
      return false;
    }
    if (!is_list_valid(theap, theap->lists.partial[bin], bin, theap->lists.partial_count[bin]) ||
        !is_list_valid(theap, theap->lists.full[bin], bin, theap->lists.full_count[bin]) ||
        !are_full(theap->lists.full[bin])) {
      return false;
    }
  }
  return true;
}

// ---- collecting --------------------------------------------------------------------------------

#define FIRST_LIST 2  // of bin 1

// Detaches the current page with exact counts; NULL when there is none.
static mx_page_t* detach_current(mx_theap_t* theap, size_t bin) {
  mx_page_t* page = theap->bins.current[bin];
  if (page == &mx_page_none) return NULL;
  mx_theap_clear_current(theap, bin);
  mx_check(page->used > 0 && page->retained_slot == 0);
  page->used--;
  mx_page_collect(page);
  return page;
}

// Whether it took calls of the OS.
static bool collect_listed(mx_theap_t* theap, mx_page_t* page, bool force) {
  mx_check(mx_page_theap(page) == theap);
  if (MX_PADDING && force) mx_page_verify(page);
  const bool has_more = mx_page_collect(page);
  const bool is_full = (theap->collecting.list % 2 != 0);
  if (is_full && !has_more) return false;
  if (is_full) mx_theap_page_unfull(theap, page);
  if (page->used == 0 && (is_full || force || page->retained_slot == 0)) {
    mx_retained_release(theap, page);
    return false;
  }
  if (!MX_HOLES || force || page->used == 0 || !mx_theap_is_idle(theap, page)) return false;
  mx_theap_give_idle(theap, page);
  return true;
}

// A current page rests when what is free in it is to go, which the pass does next. With force that
// is any one with free blocks: holes are made in all pages after that, if it is to give back what
// can be.
static bool lay_to_rest(mx_theap_t* theap, mx_page_t* page, bool has_slack, bool force) {
  mx_check(theap->bins.current[page->bin] == &mx_page_none && page->used > 0);
  if (!MX_HOLES || page->used == page->capacity) return false;
  if (!force && (has_slack || !mx_theap_is_idle(theap, page))) return false;
  mx_page_rest(page);
  mx_partial_push_tail(theap, page);
  return true;
}

// Whether a current page is empty, and not larger than any bin needs.
static bool may_stay_empty(const mx_page_t* page) {
  return page->used == 1 && page->slice_count == 1;
}

// What a pass begins with: all but the pages.
mx_cold static void begin_collect(mx_theap_t* theap, bool force) {
  mx_check_slow(mx_theap_is_valid(theap));
  mx_magazines_clear(theap, true);
  const uint32_t now = (force ? 0 : (uint32_t)mx_os_clock_msecs());
  if (force) mx_retained_release_all(theap);
  else mx_retained_age(theap, now);
  if (MX_HOLES && !force) mx_theap_begin_idle(theap, now);
  theap->collecting.list = FIRST_LIST - 1;
  theap->collecting.at = NULL;
}

// Of empty ones rounds may decide.
mx_cold static void collect_current(mx_theap_t* theap, size_t bin, bool force, bool leaves_empty) {
  const bool has_slack = mx_has_bit(theap->trimming.slack, bin);
  if (MX_PADDING) mx_page_verify(theap->bins.current[bin]);
  if (leaves_empty && may_stay_empty(theap->bins.current[bin])) return;
  mx_page_t* const page = detach_current(theap, bin);
  if (page->used == 0) {
    mx_page_release(page);
  } else if (!lay_to_rest(theap, page, has_slack, force)) {
    make_current(theap, page);
    if (has_slack) mx_set_bit(theap->trimming.slack, bin);
  }
}

// Goes to the next list of a pass that has pages, at most to the next current page, which it
// collects first; says whether it did.
mx_cold static bool go_to_next_list(mx_theap_t* theap, bool force, bool leaves_empty) {
  mx_theap_collecting_t* const pass = &theap->collecting;
  while (pass->at == NULL) {
    const size_t list = pass->list + 1, bin = list / 2;
    const bool is_last = (bin >= MX_BIN_COUNT), is_full = (list % 2 != 0);
    pass->list = (is_last ? 0 : list);
    if (is_last) return false;
    const bool has_current = (!is_full && theap->bins.current[bin] != &mx_page_none);
    if (has_current) collect_current(theap, bin, force, leaves_empty);
    // An output function that was given a message may have allocated, and gone on with the pass.
    if (pass->list == list && pass->at == NULL) {
      pass->at = (is_full ? theap->lists.full[bin] : theap->lists.partial[bin]);
    }
    if (has_current) return true;
  }
  return false;
}

// Goes on with a pass: collects in so many pages, of each bin the current one, those of its partial
// list and then those of its full one.
mx_cold static void go_on_collecting(mx_theap_t* theap, size_t pages, bool force,
                                     bool leaves_empty) {
  mx_hold_errors(true);
  while (pages > 0 && theap->collecting.list != 0) {
    mx_page_t* const page = theap->collecting.at;
    if (page == NULL) {
      if (go_to_next_list(theap, force, leaves_empty)) pages--;
      continue;
    }
    theap->collecting.at = page->next;
    const bool gave = collect_listed(theap, page, force);
    pages -= (gave ? mx_min(pages, COLLECT_PAGES) : 1);
  }
  mx_hold_errors(false);
}

void mx_theap_collect(mx_theap_t* theap, bool force) {
  if (force) mx_transfer_flush(true);
  begin_collect(theap, force);
  go_on_collecting(theap, SIZE_MAX, force, false);
  mx_check_slow(mx_theap_is_valid(theap));
}

static bool verify_list(const mx_page_t* page) {
  bool is_sound = true;
  for (; page != NULL; page = page->next) is_sound &= mx_page_verify(page);
  return is_sound;
}

mx_cold bool mx_theap_verify(const mx_theap_t* theap) {
  bool is_sound = true;
  mx_hold_errors(true);
  for (size_t bin = 1; bin < MX_BIN_HUGE; bin++) {
    const mx_page_t* const page = theap->bins.current[bin];
    if (page != &mx_page_none) is_sound &= mx_page_verify(page);
    is_sound &= verify_list(theap->lists.partial[bin]);
    is_sound &= verify_list(theap->lists.full[bin]);
  }
  mx_hold_errors(false);
  return is_sound;
}

mx_cold void mx_theap_abandon_all(mx_theap_t* theap) {
  mx_check(theap->tid != 0);
  mx_check_slow(mx_theap_is_valid(theap));
  // Nobody's write between blocks leaves its thread unseen.
  if (MX_PADDING) mx_theap_verify(theap);
  mx_magazines_clear(theap, true);
  mx_retained_release_all(theap);
  for (size_t bin = 1; bin < MX_BIN_COUNT; bin++) {
    if (!mx_theap_uses(theap, bin)) continue;
    mx_page_t* page = detach_current(theap, bin);
    if (page != NULL) {
      mx_page_rest(page);
      mx_page_abandon(page);
    }
    while ((page = theap->lists.partial[bin]) != NULL) {
      mx_partial_remove(theap, page);
      mx_page_collect(page);
      mx_page_abandon(page);
    }
    while ((page = theap->lists.full[bin]) != NULL) {
      mx_full_remove(theap, page);
      mx_page_collect(page);
      mx_page_abandon(page);
    }
  }
}

// ---- housekeeping ------------------------------------------------------------------------------

void mx_theap_deferred_free(mx_theap_t* theap, bool force) {
  mx_theap_t* const first = theap->first;
  mx_deferred_fun* const fun = mx_load_acquire(&mx_settings.deferred_fun);
  if (fun == NULL || first->thread.in_deferred_free) return;
  void* const arg = mx_load_acquire(&mx_settings.deferred_arg);
  first->thread.in_deferred_free = true;
  first->thread.heartbeat++;
  if (fun == mx_load_relaxed(&mx_settings.deferred_fun)) fun(force, first->thread.heartbeat, arg);
  first->thread.in_deferred_free = false;
}

// Blocks that others freed into a page serve nobody while none of its size is asked for: where
// memory grows, they are looked for before it has grown much.
static bool has_grown(mx_theap_collecting_t* collecting) {
  const size_t now = (size_t)mx_load_relaxed(&mx_process_counters.committed.current);
  if (now < collecting->least) collecting->least = now;
  if (now - collecting->least < collecting->least / COLLECT_SHARE + COLLECT_LEAST) return false;
  collecting->least = now;
  return true;
}

void mx_theap_housekeeping(mx_theap_t* theap, size_t size) {
  mx_visit_fn* const visit = mx_load_relaxed(&mx_visits.slow_visit);
  if (mx_unlikely(visit != NULL)) visit();
  const bool is_round = (theap->visits % VISITS_PER_ROUND == 0);
  // Large blocks are few, and each may be what a round's visits together are not.
  bool is_due = ((is_round || size > MX_SHARED_MAX) && has_grown(&theap->collecting));
  if (is_round) {
    const uint32_t now = (uint32_t)mx_os_clock_msecs();
    const bool all = (now - theap->trimming.all_went >= HARDLY_MSECS);
    if (all) {
      theap->trimming.all_went = now;
      mx_theap_age_slack(theap);
    }
    release_idle(theap, all);
    mx_magazines_clear(theap, false);
    mx_retained_age(theap, now);
    mx_arenas_purge_tick(&theap->subproc->arenas);
  }
  if (theap->visits % VISITS_PER_HEARTBEAT == 0) {
    mx_check_slow(mx_theap_is_valid(theap));
    mx_theap_deferred_free(theap, false);
  }
  const long collect = mx_option(generic_collect);
  if (collect > 0 && theap->visits % (unsigned long)collect == 0) is_due = true;
  if (is_due && theap->collecting.list == 0) begin_collect(theap, false);
  if (mx_unlikely(theap->collecting.list != 0)) go_on_collecting(theap, COLLECT_PAGES, false, true);
}
