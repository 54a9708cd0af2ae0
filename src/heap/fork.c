// SPDX-License-Identifier: MIT
// Fork in a process with threads: the child may allocate, free and make threads at once.
//
// Before the fork all locks are taken, in their order, so what they protect is whole in the child:
// that of making holes, sub-processes, records, then of each sub-process its own, its heaps'
// (main ones last) and its arenas', and metadata. Both sides release them. What no lock protects is
// a snapshot: threads that the child does not have may stand in the middle of anything. The child
// sets right
//
//   pages that a vanished thread owned. Their lists may be half changed. A list counts only when
//     every link leads to another block of the page and the number of blocks agrees with `used`;
//     otherwise the page's blocks all count as live, so each can still be freed, and at worst those
//     that were free are lost. Blocks that a vanished thread was about to get or had just given up
//     are in no list; nobody has them, so that is the same loss. Builds with bits for live blocks
//     make the list anew, and lose nothing. Then the page is the forking thread's, or abandoned.
//   pages that are owned though no thread owns them: they were on their way. The same.
//   slices that are neither free nor a page's: claimed, or half released. They become free.
//   records of vanished threads' theaps, for use again. Those that wait for it are lost.
//
// A thread's id may come again in the child, with the stack of a vanished thread: no page may be
// left that has such an owner. What a vanished thread was about to release with a heap that it was
// destroying is lost. Huge blocks need nothing: they are live or free by one word.
//
// A process with one thread takes no lock, and its child has nothing to set right.
//
// The forking thread itself may be in a call of the library: a signal's handler forks, or a
// callback. What it holds it goes on holding, on both sides, and what it owns is left alone in the
// child: what vanished threads left is set right when the interrupted call is over, if it ever is,
// and no other thread has begun one. Meanwhile it lies idle.
//
// No fork waits without end for a thread that keeps a lock: that one may be waiting in a handler
// for this very fork, by a lock of the C library. When a fork goes on without a lock, the child
// takes over nothing: it may run another program or end, as POSIX has it, and what else it does is
// at its own risk.
#include <string.h>

#include "../mem/settings.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "../os/thread.h"
#include "../page/delay.h"
#include "../page/ends.h"
#include "../page/holes.h"
#include "../page/remote.h"
#include "../page/state.h"
#include "adopt.h"
#include "fork.h"
#include "heap_record.h"
#include "os_pages.h"
#include "parked.h"
#include "subproc.h"
#include "theap.h"
#include "theap_record.h"
#include "thread_life.h"
#include "transfer.h"

#define ADOPTED_MOST 512
#define SEEN_WORDS (MX_PAGE_BLOCKS_MAX / MX_WORD_BITS)

// ---- locks -------------------------------------------------------------------------------------

// A list is walked under its lock; in the child also where nobody had it.
static bool may_walk(const mx_lock_t* lock, bool in_child) {
  return mx_lock_is_mine(lock) || (in_child && mx_load_relaxed(&lock->holder) == 0);
}

static bool visit_records(mx_lock_visit_fn* visit) {
  return mx_thread_visit_locks(visit) && mx_theap_visit_locks(visit) &&
         mx_os_pages_visit_locks(visit) && (!MX_TRANSFERS || mx_transfer_visit_locks(visit));
}

static bool take_subproc(mx_subproc_t* subproc) {
  if (!mx_fork_take(&subproc->lock)) return false;
  if (!may_walk(&subproc->lock, false)) return true;
  for (mx_heap_t* heap = subproc->heaps; heap != NULL; heap = heap->next) {
    if (!mx_fork_take(&heap->lock)) return false;
  }
  return mx_fork_take(&subproc->arenas.lock);
}

bool mx_heap_before_fork(void) {
  if (!mx_holes_visit_locks(&mx_fork_take) || !mx_fork_take(&mx_subproc_list_lock) ||
      !visit_records(&mx_fork_take)) {
    return false;
  }
  const bool walks = may_walk(&mx_subproc_list_lock, false);
  for (mx_subproc_t* s = &mx_subproc_main; s != NULL; s = (walks ? s->next : NULL)) {
    if (!take_subproc(s)) return false;
  }
  return mx_pagemap_visit_locks(&mx_fork_take) && mx_meta_visit_locks(&mx_fork_take) &&
         (!MX_READ_ONLY || mx_settings_visit_locks(&mx_fork_take));
}

static void let_go(mx_lock_visit_fn* visit, bool in_child) {
  if (MX_READ_ONLY) mx_settings_visit_locks(visit);
  mx_meta_visit_locks(visit);
  mx_pagemap_visit_locks(visit);
  const bool walks = may_walk(&mx_subproc_list_lock, in_child);
  for (mx_subproc_t* s = &mx_subproc_main; s != NULL; s = (walks ? s->next : NULL)) {
    visit(&s->arenas.lock);
    if (may_walk(&s->lock, in_child)) {
      for (mx_heap_t* heap = s->heaps; heap != NULL; heap = heap->next) visit(&heap->lock);
    }
    visit(&s->lock);
  }
  visit_records(visit);
  visit(&mx_subproc_list_lock);
  mx_holes_visit_locks(visit);
}

void mx_heap_after_fork_parent(void) { let_go(&mx_fork_let_go, false); }

// ---- pages -------------------------------------------------------------------------------------

// Where it is noted of each block whether it is live, all that are not become the list, whatever
// was being done to it and to the quarantine: a block is noted as live before it is handed out, and
// as free when nobody has it. Those on the list of other threads' frees are neither.
static void rebuild_list(mx_page_t* page) {
  page->free = NULL;
  page->used = page->capacity;
  if (MX_QUARANTINE) mx_page_forget_delay(page);
  for (size_t i = page->capacity; i-- > 0;) {
    mx_block_t* const block = (mx_block_t*)(void*)(page->start + i * page->block_size);
    if (!mx_page_repair_block(page, block)) continue;
    mx_track_access(block, page->block_size);
    if (MX_DEBUG_FILL) memset(block, MX_FILL_FREED, page->block_size - MX_PAD);
    mx_block_set_next(page, block, page->free);
    mx_track_no_access(block, page->block_size);
    page->free = block;
    page->used--;
  }
}

// What is noted of blocks says nothing of how far they are filled.
static bool notes_agree(const mx_page_t* page, const uint64_t* free) {
  return !MX_KNOWS_LIVE || (!MX_DEBUG_FILL && mx_page_notes_agree(page, free));
}

// A list that is whole stays: each OS page that is written to would be copied.
static void repair_list(mx_page_t* page) {
  uint64_t seen[SEEN_WORDS];
  memset(seen, 0, sizeof(seen));
  size_t count = 0;
  const bool is_list = mx_freelist_mark(page, page->free, seen, &count) &&
                       (!MX_QUARANTINE || mx_page_mark_delayed(page, seen, &count));
  // A current page counts one more; that it is, is as uncertain as the rest.
  const size_t all = page->capacity - mx_holes_count(page);
  mx_check(count <= page->capacity && all <= page->capacity);
  const bool is_whole = (is_list && (count + page->used == all || count + page->used == all + 1));
  if (is_whole && notes_agree(page, seen)) {
    page->used = (uint32_t)(all - count);
  } else if (MX_KNOWS_LIVE) {
    rebuild_list(page);
  } else {
    page->free = NULL;
    page->used = (uint32_t)all;
  }
}

// Bin 0 has slices that are nobody's for ever (see alloc/zero_sized.c).
static bool has_owner_bit(const mx_page_t* page) {
  if (mx_page_is_huge(page) || page->bin == 0) return false;
  return (mx_load_relaxed(&page->remote) & MX_OWNED) != 0;
}

// After disown_vanished: no thread has the page, or it was on its way.
static bool is_vanished(const mx_page_t* page) {
  const uintptr_t owner = mx_load_relaxed(&page->owner);
  return owner == MX_OWNER_VANISHED || (owner == 0 && has_owner_bit(page));
}

// A thread that begins in the child may have the id of one that vanished, and shall not take the
// other's pages for its own. Where all is set right before a page is claimed again, as that takes
// a call, they also look as if nobody owned them: so a free into one begins a call.
static void disown_vanished(const mx_arenas_t* arenas, bool before_next) {
  size_t item = 0, index = 0;
  for (mx_page_t* page; (page = mx_page_next_of(arenas, &item, &index)) != NULL;) {
    if (!has_owner_bit(page) || mx_page_is_mine(page)) continue;
    if (mx_load_relaxed(&page->owner) == 0) continue;
    mx_store_relaxed(&page->owner, before_next ? MX_OWNER_VANISHED : (uintptr_t)0);
    if (before_next) mx_store_relaxed(&page->remote, mx_load_relaxed(&page->remote) & ~MX_OWNED);
  }
}

// Keeps a page that has free blocks for this thread: to list one with those that anybody may take
// writes to a bitmap for each bin, of which each has an OS page that the child would copy. Not more
// than a few: what the child has more of is for its next threads, too.
static bool adopt(mx_page_t* page, size_t* adoptable) {
  if (*adoptable == 0 || page->used == 0 || !mx_page_has_free(page) || mx_page_is_closed(page)) {
    return false;
  }
  mx_theap_t* const theap = mx_thread_theap_of(mx_page_heap(page), false);
  mx_check((mx_load_relaxed(&page->remote) & MX_OWNED) != 0);
  if (theap == NULL) return false;
  --*adoptable;
  mx_theap_adopt(theap, page);
  return true;
}

static void repair_arena(mx_arenas_t* arenas, mx_arena_t* arena, size_t* adoptable) {
  size_t i = 0;
  while ((i = mx_bits_next_clear(arena->free, arena->slices, i)) < arena->slices) {
    uint8_t* const slice = arena->start + i * MX_SLICE_SIZE;
    mx_page_t* const page = mx_pagemap_get(slice);
    if (page != mx_arena_record(arena, i)) {
      mx_pagemap_set(slice, 1, NULL);
      if (MX_GUARD_PAGES) {
        mx_os_guard(slice, MX_SLICE_SIZE, false);  // a huge block's
        mx_arena_guard(arena, i, 1, false);
      }
      mx_arena_take_back(arena, i);
      mx_slices_free(arenas, arena, i, 1);
      i++;
      continue;
    }
    i += mx_max(page->slice_count, 1);
    if (!is_vanished(page)) continue;
    mx_remote_try_claim(page);  // where it looks as if nobody owned it
    mx_store_relaxed(&page->owner, (uintptr_t)0);
    repair_list(page);
    mx_check(page->used <= page->capacity);
    mx_check((mx_load_relaxed(&page->remote) & MX_OWNED) != 0);
    page->retained_slot = 0;
    page->is_listed = 0;
    mx_page_set_theap(page, NULL);
    page->next = page->prev = NULL;
    mx_page_collect(page);
    if (!adopt(page, adoptable)) mx_page_abandon(page);
  }
}

// What a thread that vanished had claimed to purge it, or had not noted yet, was no reference of
// its plot: each slice that is not free is one from here on, and goes when that becomes free. What
// has ended does not end again by that: as long as it has such slices it counts one more.
static void count_in_plots(const mx_arena_t* arena) {
  if (!MX_ISOLATE || arena->plots == NULL) return;
  for (size_t first = 0; first < arena->slices; first += MX_WORD_BITS) {
    mx_plot_t* const plot = &arena->plots[first / MX_WORD_BITS];
    const size_t count = mx_min(arena->slices - first, MX_WORD_BITS);
    const size_t used = count - mx_bits_count(arena->free, first, count);
    const bool has_ended = (mx_load_relaxed(&plot->partition) == 0);
    const size_t refs = used + (has_ended ? used != 0 : plot->has_heap);
    if (mx_load_relaxed(&plot->refs) != refs) mx_store_relaxed(&plot->refs, refs);
  }
}

static void repair_arenas(mx_arenas_t* arenas) {
  size_t adoptable = ADOPTED_MOST;
  mx_store_relaxed(&arenas->purging, 0);
  const size_t count = mx_load_acquire(&arenas->count);
  intptr_t in_use = 0, purgeable = 0;
  for (size_t i = 0; i < count; i++) {
    mx_arena_t* const arena = mx_arena_at(arenas, i);
    count_in_plots(arena);
    repair_arena(arenas, arena, &adoptable);
    count_in_plots(arena);
    const size_t left = mx_bits_count(arena->free, 0, arena->slices);
    mx_store_relaxed(&arena->free_slices, left);
    mx_check(left <= arena->slices);
    mx_store_relaxed(&arena->lacks, SIZE_MAX);
    mx_store_relaxed(&arena->lacks_dirty, SIZE_MAX);
    in_use += (intptr_t)(arena->slices - left);
    const intptr_t freed = (intptr_t)mx_bits_count(arena->purgeable, 0, arena->slices);
    mx_store_relaxed(&arena->purgeable_count, freed);
    purgeable += freed;
  }
  mx_store_relaxed(&arenas->purgeable, purgeable);
  mx_store_relaxed(&arenas->in_use, in_use);
}

// ---- theaps ------------------------------------------------------------------------------------

static mx_theap_t* survivor;  // the first theap of the thread that forked, or NULL
static bool has_lost;         // a fork left something since the last repair began

static bool has_survived(const mx_theap_t* theap) { return theap->first == survivor; }

// The background thread has no theap, but may have been purging.
static bool has_vanished_threads(void) {
  for (mx_subproc_t* s = &mx_subproc_main; s != NULL; s = s->next) {
    if (mx_load_relaxed(&s->arenas.purging) != 0) return true;
    for (mx_heap_t* heap = s->heaps; heap != NULL; heap = heap->next) {
      for (mx_theap_t* theap = heap->theaps; theap != NULL; theap = theap->links.next_in_heap) {
        if (!has_survived(theap) && !mx_theap_is_parked(theap)) return true;
      }
    }
  }
  return false;
}

static void recycle_theaps(mx_heap_t* heap) {
  for (mx_theap_t *next = heap->theaps, *theap; (theap = next) != NULL;) {
    next = theap->links.next_in_heap;
    if (has_survived(theap)) continue;
    mx_theap_leave_takers(theap);
    mx_lock_acquire(&heap->lock);  // for a thread that waits, whose handler forks
    mx_theap_unlink(heap, theap);
    mx_lock_release(&heap->lock);
    mx_theap_wipe(theap);
    mx_store_relaxed(&theap->heap, (mx_heap_t*)NULL);
    mx_theap_recycle(theap);
  }
}

// Threads that vanished may have been counted, no longer, or not yet.
static void count_survivor(mx_subproc_t* subproc) {
  mx_count_t* const threads = &subproc->main_heap.counters.threads;
  const int64_t count = (survivor != NULL && survivor->subproc == subproc);
  mx_count_add(threads, count - mx_load_relaxed(&threads->current));
}

// No other thread is in a call: it is alone, or the others wait at the beginning of theirs.
static void repair_all(void) {
  const bool had_lost = has_lost;
  has_lost = false;
  mx_holes_after_fork();
  if (!had_lost && !has_vanished_threads()) return;
  for (mx_subproc_t* s = &mx_subproc_main; s != NULL; s = s->next) {
    mx_store_relaxed(&s->trim.busy, 0);
  }
  // Pages that records keep, also those of heaps that are in use, would look like pages of vanished
  // threads, as those of parked theaps.
  for (mx_subproc_t* s = &mx_subproc_main; s != NULL; s = s->next) {
    mx_heap_release_cached(s);
    for (mx_heap_t* heap = s->heaps; heap != NULL; heap = heap->next) mx_heap_cache_drop(heap);
    mx_parked_give_up(s, true);
  }
  for (mx_subproc_t* s = &mx_subproc_main; s != NULL; s = s->next) repair_arenas(&s->arenas);
  for (mx_subproc_t* s = &mx_subproc_main; s != NULL; s = s->next) {
    for (mx_heap_t* heap = s->heaps; heap != NULL; heap = heap->next) recycle_theaps(heap);
    count_survivor(s);
  }
}

// The interrupted call may have made the thread's first theap.
static void repair_at_end(void) {
  survivor = mx_tls_theap->first;
  repair_all();
}

// What this thread may wait for before it repairs the rest.
static void reset_theap_locks(void) {
  for (mx_subproc_t* s = &mx_subproc_main; s != NULL; s = s->next) {
    s->visitors = 0;
    for (mx_heap_t* heap = s->heaps; heap != NULL; heap = heap->next) {
      for (mx_theap_t* t = heap->theaps; t != NULL; t = t->links.next_in_heap) {
        mx_lock_reset(&t->lock);
      }
    }
  }
}

// A child that runs another program, or ends, needs nothing of it; to look at all that vanished
// threads left may take longer than the fork.
#define REPAIRS_LATER (!MX_TRACK)

bool mx_heap_after_fork(void) {
  const bool is_whole = !mx_fork_has_missed();
  survivor = mx_tls_theap->first;
  mx_check(survivor == NULL || survivor->first == survivor);
  let_go(&mx_fork_let_go_in_child, true);
  mx_thread_after_fork();
  const bool has_vanished = !is_whole || has_vanished_threads();
  if (has_vanished) mx_ends_are_torn = true;
  if (!is_whole) {
    mx_call_before_next(NULL);
    return true;
  }
  reset_theap_locks();
  const bool is_inside = mx_fork_is_inside(), is_later = (REPAIRS_LATER && !is_inside);
  for (mx_subproc_t* s = &mx_subproc_main; has_vanished && s != NULL; s = s->next) {
    disown_vanished(&s->arenas, is_later);
  }
  has_lost |= has_vanished;
  if (is_inside) mx_call_then(&repair_at_end);
  else if (has_vanished && is_later) mx_call_before_next(&repair_all);
  else repair_all();
  return has_vanished;
}
