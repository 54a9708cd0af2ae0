// SPDX-License-Identifier: MIT
// The passing of pages between threads: making, releasing, abandoning and reclaiming them.
//
// An abandoned page with free blocks is listed: a bit in its arena's bitmap of that bin. The bit is
// a hint, set after the page was disowned and cleared by whoever finds it; what counts is the owned
// bit of page->remote. A finder clears the bit first and then tries to claim, so a bit left behind
// by a page that is gone costs one look. A thread that wants a page for a moment leaves the bit.
// sub-process `listed` counts bits, so that the search is skipped when there are none. Pages of
// other than main heaps are found in their heap's list; their heap counts those that are worth a
// search.
//
// A page's heap can change under any of this, once, when it is deleted (see heap_end.c). Whoever
// needs the heap to be right looks again under its lock; for the others either value will do.
#include "../os/os.h"
#include "../os/track.h"
#include "../page/holes.h"
#include "../page/remote.h"
#include "adopt.h"

// Pages of first-class heaps that one search looks at.
#define HEAP_SEARCH_MAX 32

// Words of bitmaps that a search for a page of a main heap looks at, and bits that it tries.
#define SEARCH_WORDS 256
#define SEARCH_TRIES 32

// ---- making and releasing ----------------------------------------------------------------------

static void count_page(mx_heap_t* heap, const mx_page_t* page, int64_t change) {
  if (mx_page_is_huge(page)) {
    mx_count_add(&heap->counters.malloc_huge, change * (int64_t)page->block_size);
    mx_count_add(&heap->counters.bin_pages[MX_BIN_HUGE], change);
    if (change > 0) mx_counter_add(&heap->counters.malloc_huge_count, change);
  } else {
    mx_count_add(&heap->counters.pages, change);
    mx_count_add(&heap->counters.bin_pages[page->bin], change);
  }
}

// The same for a first-class heap, whose lock is held.
static void count_page_locked(mx_heap_t* heap, const mx_page_t* page, int64_t change) {
  mx_check(mx_lock_is_mine(&heap->lock));
  if (mx_page_is_huge(page)) {
    count_page(heap, page, change);
    return;
  }
  mx_count_add_locked(&heap->counters.pages, change);
  mx_count_add_locked(&heap->counters.bin_pages[page->bin], change);
  mx_set_bit(heap->bins, page->bin);
}

static void put_in(mx_heap_t* heap, mx_page_t* page) {
  mx_check(mx_lock_is_mine(&heap->lock) && !mx_heap_is_main(heap));
  mx_check(mx_page_heap(page) == heap);
  mx_check(heap->pages == NULL || heap->pages->heap_prev == NULL);
  page->heap_next = heap->pages;
  page->heap_prev = NULL;
  if (heap->pages != NULL) heap->pages->heap_prev = page;
  heap->pages = page;
  count_page_locked(heap, page, 1);
}

void mx_heap_link_page(mx_heap_t* heap, mx_page_t* page) {
  mx_check(mx_page_heap(page) == heap && heap->subproc != NULL);
  if (mx_heap_is_main(heap)) {
    count_page(heap, page, 1);
    return;
  }
  mx_lock_acquire(&heap->lock);
  put_in(heap, page);
  mx_lock_release(&heap->lock);
}

// ---- pages that a destroyed heap keeps ---------------------------------------------------------

// The next heap in its record gets them: programs that make a heap, fill it a little and destroy it
// do so again and again, and to pass a page through the arena each time costs more than all the
// rest.
//
// Such a page stays mapped and owned, with no list and no counter that knows it. A record keeps a
// few pages of one slice, all records that wait to be used again about MX_HEAP_CACHED_ALL.
// Collecting with force, making holes, fork and the end of a sub-process give them back. Builds
// that keep track of each block keep none, as there a page must begin anew.

#define CACHES_PAGES (MX_HOLES && !MX_PADDING && !MX_RANDOM_ORDER && !MX_ISOLATE)

// Carved blocks that are linked at once when a page is used again. The others are carved anew.
#define RELINK_MAX 128

static bool is_cacheable(const mx_heap_t* heap, mx_page_t* page) {
  if (!CACHES_PAGES || mx_load_relaxed(&heap->cached_count) >= MX_HEAP_CACHED_MAX) return false;
  if (mx_load_relaxed(&heap->subproc->cached_pages) >= MX_HEAP_CACHED_ALL) return false;
  return page->slice_count == 1 && page->capacity > 0 && heap->arena == NULL &&
         heap->numa_node < 0 && !mx_page_has_holes(page) && mx_page_hold(page);
}

bool mx_heap_cache_put(mx_heap_t* heap, mx_page_t* page) {
  mx_check(page->arena != NULL || mx_page_is_huge(page));
  if (mx_page_is_huge(page) || !is_cacheable(heap, page)) return false;
  mx_store_relaxed(&page->owner, (uintptr_t)0);
  mx_page_set_theap(page, NULL);
  page->free = NULL;
  page->used = 0;
  page->retained_slot = 0;
  mx_store_relaxed(&page->shifted, (uint8_t)0);
  page->is_listed = 0;
  page->next = page->prev = NULL;  // of a list that went with the heap
  const uint32_t count = mx_load_relaxed(&heap->cached_count);
  heap->cached[count] = page;
  mx_check(count < MX_HEAP_CACHED_MAX);
  mx_store_relaxed(&heap->cached_count, count + 1);
  return true;
}

// A kept page of a bin, with all of it free, in no list; or NULL.
static mx_page_t* take_kept_page(mx_heap_t* heap, size_t bin) {
  mx_check(mx_lock_is_mine(&heap->lock));
  const uint32_t count = mx_load_relaxed(&heap->cached_count);
  for (uint32_t i = count; i-- > 0;) {
    mx_page_t* const page = heap->cached[i];
    if (page->bin != bin) continue;
    heap->cached[i] = heap->cached[count - 1];
    mx_store_relaxed(&heap->cached_count, count - 1);
    mx_check(page->capacity > 0 && page->free == NULL && page->used == 0);
    page->is_final = 0;
    page->capacity = (uint32_t)mx_min(page->capacity, RELINK_MAX);
    mx_page_link_in_order(page, 0, page->capacity);
    return page;
  }
  return NULL;
}

// ---- fresh pages and their end ------------------------------------------------------------------

// Plots are chosen for whom they belong to, not for the node that their memory is on.
static void keep_near(const mx_heap_t* heap, uint8_t* start, size_t slices) {
  if (!mx_heap_is_isolated(heap)) return;
  const int node = mx_heap_node(heap);
  if (node >= 0) mx_os_advise_numa(start, slices * MX_SLICE_SIZE, node);
}

bool mx_heap_grow_page(mx_heap_t* heap, mx_page_t* page) {
  const size_t before = page->slice_count;
  mx_page_grow(page, &heap->subproc->arenas);
  const size_t more = page->slice_count - before;
  if (more > 0) keep_near(heap, mx_arena_slice(page->arena, page->slice_index + before), more);
  return more > 0;
}

bool mx_page_extend_scarce(mx_heap_t* heap, mx_page_t* page, bool* is_zero) {
  if (!mx_page_can_extend(page)) return false;
  mx_arenas_unmap_free(&heap->subproc->arenas);
  mx_heap_grow_page(heap, page);
  const bool done = mx_page_extend(page, is_zero);
  if (!done) page->is_final = 1;
  return done;
}

// Slices for a page. Where they are mapped in part that of the first block is, and of what lies in
// front of it.
static bool fresh_slices(mx_arenas_t* arenas, const mx_slices_request_t* request, size_t size,
                         mx_slices_t* out) {
  if (!mx_slices_alloc(arenas, request, out)) return false;
  if (!MX_PARTS || mx_likely(!mx_load_relaxed(&out->arena->has_parts))) return true;
  return mx_slices_map_first(arenas, request, mx_page_fence(size) + size, out);
}

mx_page_t* mx_page_fresh(mx_heap_t* heap, size_t bin) {
  mx_check(bin > 0 && bin < MX_BIN_HUGE);
  if (mx_load_relaxed(&heap->cached_count) > 0) {
    mx_lock_acquire(&heap->lock);  // other threads may want one, too
    mx_page_t* const kept = take_kept_page(heap, bin);
    if (kept != NULL) put_in(heap, kept);
    mx_lock_release(&heap->lock);
    if (kept != NULL) return kept;
  }
  const size_t size = mx_bin_size(bin);
  const int node = mx_heap_node(heap);
  const size_t count = mx_page_first_slices(size), most = mx_page_slices_for(size);
  const mx_slices_request_t request = {count, most, 1, heap->arena, node, false, true};
  mx_slices_t slices;
  mx_arenas_t* arenas = &heap->subproc->arenas;
  if (mx_heap_is_isolated(heap)) {
    if (!mx_partition_slices(arenas, &heap->partition, &request, &slices)) return NULL;
    keep_near(heap, slices.start, slices.count);
  } else if (!fresh_slices(arenas, &request, size, &slices)) {
    return NULL;
  }
  mx_check(slices.arena != NULL && slices.count >= count);
  mx_page_t* page = mx_arena_record(slices.arena, slices.index);
  const bool is_open =
      (!MX_GUARD_PAGES || mx_arena_guard(slices.arena, slices.index, slices.count, true));
  mx_page_init(page, &slices, size, bin, heap);
  if (!is_open || !mx_pagemap_set(slices.start, slices.count, page)) {
    mx_slices_free(arenas, slices.arena, slices.index, slices.count);
    return NULL;
  }
  mx_heap_link_page(heap, page);
  return page;
}

void mx_page_drop(mx_arenas_t* arenas, mx_page_t* page) {
  mx_check(page->arena != NULL && page->slice_count > 0);
  mx_check((mx_load_relaxed(&page->remote) & MX_OWNED) != 0);
  mx_page_hold(page);  // nobody has borrowed it, and nobody may from now on
  mx_store_relaxed(&page->owner, (uintptr_t)0);
  mx_pagemap_set(page->start, page->slice_count, NULL);
  // Slices with an inaccessible place inside are lost.
  if (MX_GUARD_PAGES && mx_page_is_huge(page) && !mx_page_guard_huge(page, false)) return;
  if (MX_TRACK) mx_track_no_access(page->start - (uintptr_t)page->start % MX_SLICE_SIZE,
                                   mx_page_size(page));
  mx_slices_free(arenas, page->arena, page->slice_index, page->slice_count);
}

void mx_page_release(mx_page_t* page) {
  mx_check(page->used == 0 && page->arena != NULL);
  if (!mx_page_hold_or_leave(page)) return;
  mx_arenas_t* const arenas = &mx_heap_unlink_page(page)->arenas;
  mx_page_drop(arenas, page);
  mx_arenas_purge_tick(arenas);
}

static void take_out(mx_heap_t* heap, mx_page_t* page) {
  mx_check(mx_lock_is_mine(&heap->lock));
  // A page that a vanished thread was about to release with its heap is in no list (heap/fork.c).
  mx_check(page->heap_prev == NULL || page->heap_prev->heap_next == page);
  mx_check(page->heap_next == NULL || page->heap_next->heap_prev == page);
  if (heap->search_from == page) heap->search_from = page->heap_next;
  if (page->heap_prev != NULL) page->heap_prev->heap_next = page->heap_next;
  else heap->pages = page->heap_next;
  if (page->heap_next != NULL) page->heap_next->heap_prev = page->heap_prev;
}

mx_subproc_t* mx_heap_unlink_page(mx_page_t* page) {
  for (;;) {
    // What a deleter of the former heap did to this page is over.
    mx_heap_t* const heap = mx_load_acquire(&page->heap);
    mx_subproc_t* const subproc = heap->subproc;
    if (mx_heap_is_main(heap)) {
      count_page(heap, page, -1);
      return subproc;
    }
    mx_lock_acquire(&heap->lock);
    const bool is_right = (mx_page_heap(page) == heap);
    if (is_right) {
      take_out(heap, page);
      count_page_locked(heap, page, -1);
    }
    mx_lock_release(&heap->lock);
    if (is_right) return subproc;
  }
}

// ---- the list of abandoned pages ---------------------------------------------------------------

static void list(mx_subproc_t* subproc, mx_arena_t* arena, size_t bin, size_t index) {
  mx_check(bin < MX_BIN_HUGE && index < arena->slices);
  const size_t changed = mx_bits_set(mx_arena_abandoned(arena, bin), index, 1);
  if (changed == 0) return;
  mx_add_relaxed(&subproc->listed[bin], changed);
  mx_count_add(&subproc->main_heap.counters.pages_abandoned, 1);
}

static void unlist(mx_subproc_t* subproc, mx_arena_t* arena, size_t bin, size_t index) {
  mx_check(bin < MX_BIN_HUGE && index < arena->slices);
  const size_t changed = mx_bits_clear(mx_arena_abandoned(arena, bin), index, 1);
  if (changed == 0) return;
  mx_add_relaxed(&subproc->listed[bin], -changed);
  mx_count_add(&subproc->main_heap.counters.pages_abandoned, -1);
}

// Under the lock the heap cannot be given up: a record that serves another heap by now, or will do,
// keeps its own count.
static void count_listed(mx_heap_t* heap, const mx_page_t* page, size_t change) {
  mx_lock_acquire(&heap->lock);
  if (mx_page_heap(page) == heap) mx_add_relaxed(&heap->listed, change);
  mx_lock_release(&heap->lock);
}

void mx_page_own_again(mx_page_t* page) {
  mx_check((mx_load_relaxed(&page->remote) & MX_OWNED) != 0);
  if (page->is_listed == 0) return;
  page->is_listed = 0;
  mx_heap_t* const heap = mx_page_heap(page);
  if (mx_heap_is_main(heap)) unlist(heap->subproc, page->arena, page->bin, page->slice_index);
  else count_listed(heap, page, (size_t)-1);
}

// ---- abandoning --------------------------------------------------------------------------------

bool mx_page_abandon_full(mx_page_t* page, uintptr_t tid) {
  mx_check(page->free == NULL && page->used > 0);
  mx_store_relaxed(&page->owner, (uintptr_t)0);
  if (mx_remote_disown(page)) return true;
  mx_page_set_owner(page, tid);
  mx_page_collect(page);
  return false;
}

// The page was disowned as one of a first-class heap. If that was deleted meanwhile, the page must
// be listed in the main heap instead. The fence pairs with that in move_pages (heap_end.c): either
// this code sees the new heap, or the deleter sees the page disowned. The record may serve another
// page by now, even one that is abandoned as well: that is abandoned a second time then, without
// harm.
static bool was_moved(mx_page_t* page, const mx_heap_t* heap) {
  mx_fence_seq_cst();
  return mx_page_heap(page) != heap && mx_remote_try_claim(page);
}

// False: blocks were freed into it meanwhile, or its heap changed; it is still the caller's.
static bool disown_listed(mx_page_t* page) {
  mx_check(page->used > 0 && page->is_listed == 0);
  mx_heap_t* const heap = mx_page_heap(page);
  const bool is_main = mx_heap_is_main(heap);
  mx_subproc_t* const subproc = heap->subproc;
  mx_arena_t* const arena = page->arena;
  const size_t bin = page->bin, index = page->slice_index;
  const bool lists = mx_page_has_free(page) && !mx_page_is_closed(page);
  page->is_listed = lists;
  if (lists && !is_main) count_listed(heap, page, 1);
  if (!mx_remote_disown(page)) {
    if (is_main) page->is_listed = 0;
    else mx_page_own_again(page);
    return false;
  }
  if (is_main) {
    if (lists) list(subproc, arena, bin, index);
    return true;
  }
  if (!was_moved(page, heap)) return true;
  mx_page_own_again(page);
  return false;
}

void mx_page_abandon(mx_page_t* page) {
  mx_check(!mx_page_is_huge(page));
  mx_check((mx_load_relaxed(&page->remote) & MX_OWNED) != 0);
  mx_store_relaxed(&page->owner, (uintptr_t)0);
  while (page->used > 0) {
    if (disown_listed(page)) return;
    mx_page_collect(page);
  }
  mx_page_release(page);
}

// To take a page of a main heap off the list and put it there again would be six writes of words of
// all threads, at each free into a page that nobody wants. A finder that has cleared its bit before
// could not claim it: either this sees the bit clear, or that (reclaim_at) sees the page disowned.
void mx_page_abandon_again(mx_page_t* page) {
  mx_heap_t* const heap = mx_page_heap(page);
  mx_subproc_t* const subproc = heap->subproc;
  mx_arena_t* const arena = page->arena;
  const size_t bin = page->bin, index = page->slice_index;
  if (page->is_listed == 0 || !mx_heap_is_main(heap) || !mx_remote_disown(page)) {
    mx_page_own_again(page);
    mx_page_abandon(page);
    return;
  }
  mx_fence_seq_cst();
  if (!mx_bits_test(mx_arena_abandoned(arena, bin), index)) list(subproc, arena, bin, index);
}

// ---- reclaiming --------------------------------------------------------------------------------

// A page that was claimed by its bit: is it what the bit said? If not it goes back, and the bit
// with it.
static bool accept(mx_page_t* page, mx_heap_t* heap, size_t bin, bool stays) {
  mx_check(mx_load_relaxed(&page->owner) == 0);
  if (!stays) mx_page_own_again(page);
  mx_page_collect(page);
  if (mx_page_heap(page) == heap && page->bin == bin && mx_page_has_free(page)) return true;
  if (stays) {
    unlist(heap->subproc, page->arena, bin, page->slice_index);
    mx_page_own_again(page);
  }
  mx_page_abandon(page);
  return false;
}

// Tries the pages of a word of an arena's bitmap, as long as there are tries left.
static mx_page_t* reclaim_at(mx_arena_t* arena, mx_heap_t* heap, size_t bin, size_t word,
                             int* tries, bool stays) {
  uint64_t bits = mx_load_relaxed(&mx_arena_abandoned(arena, bin)[word]);
  for (; bits != 0 && *tries > 0; bits &= bits - 1) {
    const size_t i = word * MX_WORD_BITS + mx_bit_low(bits);
    (*tries)--;
    if (!stays) {
      unlist(heap->subproc, arena, bin, i);
      mx_fence_seq_cst();  // see mx_page_abandon_again
      mx_counter_add(&heap->counters.page_searches, 1);
    }
    mx_page_t* page = mx_arena_record(arena, i);
    if (mx_remote_try_claim(page) && accept(page, heap, bin, stays)) return page;
  }
  return NULL;
}

// The same for words from *word up to `end`; *word: where it stopped.
static mx_page_t* reclaim_in(mx_arena_t* arena, mx_heap_t* heap, size_t bin, size_t* word,
                             size_t end, int* tries, bool stays) {
  const mx_bits_t* const bits = mx_arena_abandoned(arena, bin);
  mx_page_t* page = NULL;
  for (; *word < end && *tries > 0; ++*word) {
    if (mx_load_relaxed(&bits[*word]) == 0) continue;
    page = reclaim_at(arena, heap, bin, *word, tries, stays);
    if (page != NULL) break;
  }
  return page;
}

// Looks at a part of the bitmaps only: the next search for this bin begins where one ended that did
// not get through. In an arena of 1 GiB each search sees all.
// The page stays on the list, or does not.
static mx_page_t* reclaim_in_main(mx_heap_t* heap, size_t bin, bool stays) {
  mx_check(mx_heap_is_main(heap));
  mx_subproc_t* const subproc = heap->subproc;
  const size_t count = mx_load_acquire(&subproc->arenas.count);
  const uint64_t from = mx_load_relaxed(&subproc->search_from[bin]);
  const int node = mx_heap_node(heap);
  size_t word = (uint32_t)from, left = SEARCH_WORDS;
  int tries = SEARCH_TRIES;
  for (size_t i = (size_t)(from >> 32); i < count; i++, word = 0) {
    mx_arena_t* const arena = mx_arena_at(&subproc->arenas, i);
    if (arena == NULL || word >= arena->words) continue;
    // What others left on another NUMA node than the heap's is not for it.
    if (node >= 0 && arena->numa_node >= 0 && arena->numa_node != node) continue;
    const size_t end = mx_min(arena->words, word + left);
    left -= end - word;
    mx_page_t* const page = reclaim_in(arena, heap, bin, &word, end, &tries, stays);
    if (page != NULL) return page;
    if (word == arena->words && left > 0) continue;
    mx_store_relaxed(&subproc->search_from[bin], (uint64_t)i << 32 | word);
    return NULL;
  }
  if (from != 0) mx_store_relaxed(&subproc->search_from[bin], (uint64_t)0);
  return NULL;
}

static mx_page_t* reclaim_in_heap(mx_heap_t* heap, size_t bin) {
  mx_check(!mx_heap_is_main(heap));
  if (mx_load_relaxed(&heap->listed) == 0) return NULL;
  mx_page_t* found = NULL;
  mx_lock_acquire(&heap->lock);
  size_t tries = HEAP_SEARCH_MAX;
  mx_page_t* p = (heap->search_from != NULL ? heap->search_from : heap->pages);
  for (; p != NULL && found == NULL && tries > 0; p = p->heap_next) {
    tries--;
    if (p->bin != bin || !mx_remote_try_claim(p)) continue;
    // Only disowned while the lock is held: releasing it would take the lock again.
    for (bool leaves = false; !leaves && found == NULL;) {
      mx_page_collect(p);
      if (mx_page_has_free(p)) found = p;
      else leaves = mx_remote_disown(p);
    }
  }
  if (found == NULL) heap->search_from = p;
  mx_lock_release(&heap->lock);
  if (found != NULL) mx_page_own_again(found);
  return found;
}

mx_page_t* mx_page_reclaim_briefly(mx_heap_t* heap, size_t bin) {
  if (mx_load_relaxed(&heap->subproc->listed[bin]) == 0) return NULL;
  return reclaim_in_main(heap, bin, true);
}

mx_page_t* mx_page_reclaim(mx_heap_t* heap, size_t bin) {
  mx_check(bin > 0 && bin < MX_BIN_HUGE);
  mx_page_t* page = NULL;
  if (!mx_heap_is_main(heap)) {
    page = reclaim_in_heap(heap, bin);
  } else if (mx_load_relaxed(&heap->subproc->listed[bin]) > 0) {
    mx_counter_add(&heap->counters.page_searches_count, 1);
    page = reclaim_in_main(heap, bin, false);
  }
  if (page != NULL) mx_counter_add(&heap->counters.pages_reclaim_on_alloc, 1);
  return page;
}
