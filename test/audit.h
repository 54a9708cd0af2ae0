// SPDX-License-Identifier: MIT
// Whether what the library keeps beside each other agrees, while no thread is in it: bitmaps of slices
// with their counts, pages with the slices that they take and with the lists that they are on, heaps
// with the counters that their statistics are made of. What is out is said line by line.
#ifndef AUDIT_H
#define AUDIT_H

#include <stdio.h>

#include "../src/heap/adopt.h"
#include "../src/heap/heap.h"
#include "../src/heap/subproc.h"
#include "../src/heap/theap.h"
#include "../src/mem/vmem.h"
#include "../src/os/thread.h"
#include "../src/page/remote.h"

typedef struct audit_s {
  int wrong;
  size_t pages, slices, bytes;    // of the walk over all arenas; bytes that are present in them
  size_t in_theaps, nobodys, huge, kept;  // those of them that are on a list, or on none
  size_t live;                    // blocks of users in pages of blocks
  size_t os_bytes;                // in mappings of their own
  size_t listed[MX_BIN_COUNT];    // abandoned pages of the main heap that can be found
  int64_t of_bin[MX_BIN_COUNT];   // pages of the main heap
} audit_t;

static audit_t audited;

#define AUDIT(cond) \
  ((cond) ? (void)0 : (void)(printf("audit line %d: %s\n", __LINE__, #cond), audited.wrong++))

static size_t audit_bits(const mx_bits_t* bits, size_t count) {
  return mx_bits_count(bits, 0, count);
}

static void audit_slice(const mx_arena_t* arena, size_t i) {
  const bool is_free = mx_bits_test(arena->free, i), is_dirty = mx_bits_test(arena->dirty, i);
  const size_t per = mx_arena_bits_per_slice();
  if (mx_bits_test(arena->purgeable, i)) AUDIT(is_free && is_dirty && !arena->is_pinned);
  // What nobody used is present only as a part of a large OS page (arena/large.c).
  const size_t present = mx_bits_count(arena->present, i * per, per);
  if (is_free && !is_dirty) AUDIT(present == 0 || present == per);
  if (is_free && is_dirty) AUDIT(mx_bits_test(arena->committed, i));
  if (!is_free) AUDIT(mx_bits_test(arena->committed, i) || mx_load_relaxed(&arena->has_parts));
  if (!is_free) AUDIT(mx_pagemap_get(mx_arena_slice(arena, i)) != NULL);
}

static void audit_page(const mx_subproc_t* subproc, const mx_arena_t* arena, mx_page_t* page) {
  mx_heap_t* const heap = mx_page_heap(page);
  const uint32_t freed = mx_remote_list_of(mx_load_relaxed(&page->remote)).count;
  const bool is_owned = (mx_load_relaxed(&page->remote) & MX_OWNED) != 0;
  const size_t i = page->slice_index;
  audited.pages++;
  audited.slices += page->slice_count;
  AUDIT(page->arena == arena && mx_arena_record(arena, i) == page);
  AUDIT(mx_bits_count(arena->free, i, page->slice_count) == 0);
  for (size_t n = 0; n < page->slice_count; n++) {
    AUDIT(mx_pagemap_get(mx_arena_slice(arena, i + n)) == page);
  }
  if (mx_page_is_huge(page)) {
    audited.huge++;
    return;
  }
  AUDIT(mx_page_is_valid(page) && page->slice_count <= mx_page_slices_for(page->block_size));
  // It takes its slices as it carves them, and has none that it does not use.
  if (!MX_SCATTER && MX_PAGE_GROWS && page->slice_count > mx_page_first_slices(page->block_size)) {
    const size_t carved = mx_page_fence(page->block_size) + page->capacity * page->block_size;
    AUDIT(page->capacity == 0 || carved > (page->slice_count - 1) * MX_SLICE_SIZE);
  }
  audited.live += page->used - freed;
  if (mx_heap_is_main(heap)) audited.of_bin[page->bin]++;
  if (is_owned) return;
  audited.nobodys++;
  AUDIT(mx_load_relaxed(&page->owner) == 0 && page->used > 0 && freed == 0);
  const bool is_marked = mx_bits_test(mx_arena_abandoned(arena, page->bin), i);
  if (mx_page_has_free(page) && !mx_page_is_closed(page)) {
    AUDIT(page->is_listed && (is_marked || !mx_heap_is_main(heap)));
  }
  (void)subproc;
}

static void audit_arena(const mx_subproc_t* subproc, const mx_arena_t* arena) {
  for (size_t i = 0; i < arena->slices; i++) audit_slice(arena, i);
  AUDIT(mx_load_relaxed(&arena->free_slices) == audit_bits(arena->free, arena->slices));
  AUDIT((size_t)mx_load_relaxed(&arena->purgeable_count) == audit_bits(arena->purgeable, arena->slices));
  const size_t bits = arena->slices * mx_arena_bits_per_slice();
  audited.bytes += audit_bits(arena->present, bits) * mx_facts.os_page;
  size_t at = 0;
  for (mx_page_t* page; (page = mx_page_next_in(arena, &at)) != NULL;) {
    audit_page(subproc, arena, page);
  }
  for (size_t bin = 1; bin < MX_BIN_HUGE; bin++) {
    audited.listed[bin] += audit_bits(mx_arena_abandoned(arena, bin), arena->slices);
  }
}

static void audit_arenas(const mx_subproc_t* subproc) {
  const mx_arenas_t* const arenas = &subproc->arenas;
  size_t purgeable = 0, taken = 0;
  for (size_t i = 0; i < mx_load_relaxed(&arenas->count); i++) {
    const mx_arena_t* const arena = mx_arena_at(arenas, i);
    if (arena == NULL) continue;
    audit_arena(subproc, arena);
    purgeable += (size_t)mx_load_relaxed(&arena->purgeable_count);
    taken += arena->slices - mx_load_relaxed(&arena->free_slices);
  }
  AUDIT((size_t)mx_load_relaxed(&arenas->purgeable) == purgeable);
  AUDIT((size_t)mx_load_relaxed(&arenas->in_use) == taken && audited.slices == taken);
  // What waits is seen after a while, by somebody.
  if (purgeable > 0) AUDIT(mx_load_relaxed(&arenas->purge_at) != 0);
  AUDIT(mx_load_relaxed(&arenas->purging) == 0);
}

static size_t audit_list(const mx_theap_t* theap, const mx_page_t* page) {
  size_t count = 0;
  for (; page != NULL; page = page->next, count++) AUDIT(mx_page_theap(page) == theap);
  return count;
}

static void audit_retained(const mx_theap_t* theap) {
  const mx_theap_retained_t* const kept = &theap->retained;
  size_t slices = 0;
  for (uint32_t n = 0; n < MX_RETAINED_MAX; n++) {
    const mx_page_t* const page = kept->pages[n];
    if (page == NULL) continue;
    AUDIT(page->retained_slot == n + 1 && mx_page_theap(page) == theap);
    slices += page->slice_count;
  }
  AUDIT(kept->slices == slices);
  // Between the place of the next one and the oldest there is none.
  for (uint32_t n = kept->next; slices > 0 && n % MX_RETAINED_MAX != kept->oldest % MX_RETAINED_MAX; n++) {
    AUDIT(kept->pages[n % MX_RETAINED_MAX] == NULL);
  }
}

static void audit_theap(const mx_theap_t* theap) {
  AUDIT(mx_theap_is_valid(theap));
  for (size_t bin = 1; bin < MX_BIN_HUGE; bin++) {
    const bool has_current = (theap->bins.current[bin] != &mx_page_none);
    if (has_current) audited.live--;  // itself is counted as used
    audited.in_theaps += has_current + audit_list(theap, theap->lists.partial[bin]) +
                         audit_list(theap, theap->lists.full[bin]);
    if (mx_theap_is_behind(theap, bin)) AUDIT(theap->bins.front[bin] == &mx_page_none);
    else AUDIT(theap->bins.front[bin] == theap->bins.current[bin]);
    AUDIT(has_current || !theap->trimming.shut[bin]);
  }
  audit_retained(theap);
}

// Those that the record of a heap keeps are nobody's, and empty.
static void audit_kept(const mx_heap_t* heap) {
  for (uint32_t i = 0; i < mx_load_relaxed(&heap->cached_count); i++, audited.kept++) {
    const mx_page_t* const page = heap->cached[i];
    AUDIT(mx_load_relaxed(&page->owner) == 0 && page->used == 0 && page->free == NULL);
    AUDIT(page->is_listed == 0 && page->retained_slot == 0 && mx_page_heap(page) == heap);
    AUDIT((mx_load_relaxed(&page->remote) & MX_OWNED) != 0);
  }
}

static void audit_heap(const mx_heap_t* heap) {
  size_t theaps = 0, pages = 0, listed = 0;
  const mx_theap_t* before = NULL;
  for (const mx_theap_t* t = heap->theaps; t != NULL; before = t, t = t->links.next_in_heap) {
    theaps++;
    AUDIT(t->links.prev_in_heap == before && mx_load_relaxed(&t->heap) == heap);
    audit_theap(t);
  }
  AUDIT((size_t)mx_load_relaxed(&heap->counters.theaps.current) == theaps);
  const mx_page_t* last = NULL;
  for (const mx_page_t* p = heap->pages; p != NULL; last = p, p = p->heap_next) {
    AUDIT(p->heap_prev == last && mx_page_heap(p) == heap);
    if (mx_page_is_huge(p)) continue;
    pages++;
    listed += p->is_listed;
    AUDIT(mx_has_bit(heap->bins, p->bin));
  }
  if (mx_heap_is_main(heap)) return;
  AUDIT((size_t)mx_load_relaxed(&heap->counters.pages.current) == pages);
  AUDIT(mx_load_relaxed(&heap->listed) == listed);
}

static void audit_heaps(const mx_subproc_t* subproc) {
  size_t heaps = 0;
  const mx_heap_t* before = NULL;
  for (const mx_heap_t* h = subproc->heaps; h != NULL; before = h, h = h->next, heaps++) {
    AUDIT(h->prev == before && h->subproc == subproc && mx_load_relaxed(&h->id) != MX_HEAP_GONE);
    audit_heap(h);
    audit_kept(h);
  }
  const mx_counters_t* const counters = &subproc->main_heap.counters;
  AUDIT((size_t)mx_load_relaxed(&counters->heaps.current) == heaps);
  size_t waiting = 0;
  for (const mx_heap_t* h = subproc->free_heaps; h != NULL; h = h->next) {
    AUDIT(h->theaps == NULL && h->pages == NULL);
    AUDIT(mx_load_relaxed(&h->id) == MX_HEAP_GONE);
    waiting += mx_load_relaxed(&h->cached_count);
    audit_kept(h);
  }
  AUDIT(mx_load_relaxed(&subproc->cached_pages) == waiting);
  int64_t pages = 0, listed = 0;
  for (size_t bin = 1; bin < MX_BIN_HUGE; bin++) {
    AUDIT(mx_load_relaxed(&counters->bin_pages[bin].current) == audited.of_bin[bin]);
    AUDIT(mx_load_relaxed(&subproc->listed[bin]) == audited.listed[bin]);
    pages += audited.of_bin[bin];
    listed += (int64_t)audited.listed[bin];
  }
  AUDIT(mx_load_relaxed(&counters->pages.current) == pages);
  AUDIT(mx_load_relaxed(&counters->pages_abandoned.current) == listed);
}

// Of a sub-process; of the main one, where there is no other, also what the process has committed:
// beside what is present in arenas and what has a mapping of its own that is metadata.
__attribute__((unused)) static int audit(const mx_subproc_t* subproc) {
  mx_call_do_pending();  // in the child of a fork all is set right before a call
  static const audit_t nothing;
  audited = nothing;
  AUDIT(mx_call_depth == 0);
  audit_arenas(subproc);
  audit_heaps(subproc);
  for (const mx_page_t* p = subproc->os_pages; p != NULL; p = p->next) {
    AUDIT(mx_pagemap_find(p->start) == p && mx_page_is_huge(p));
    audited.os_bytes += mx_page_size(p);
  }
  // Each page of blocks is on one list of somebody, or nobody's.
  AUDIT(audited.pages == audited.in_theaps + audited.nobodys + audited.huge + audited.kept);
  const int64_t other = mx_load_relaxed(&mx_process_counters.committed.current) -
                        mx_load_relaxed(&mx_process_counters.metadata.current);
  if (!MX_LARGE_APART) AUDIT(other == (int64_t)(audited.bytes + audited.os_bytes));
  return audited.wrong;
}

#endif
