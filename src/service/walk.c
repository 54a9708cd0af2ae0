// SPDX-License-Identifier: MIT
// The visits. A page does not say of a block whether it is live; what its lists and its holes
// hold is free, the rest of the carved ones is live. So a visit marks these blocks first. Builds
// that know it of each block ask that, since there freed blocks wait in other places, too.
//
// A first-class heap has a list of its pages. The main heap's are found by the records of the
// arenas, its huge blocks outside of the arenas on the sub-process' list, and guarded blocks by
// their own records.
#include "walk.h"

#include <string.h>

#include "../alloc/guarded.h"
#include "../alloc/spare.h"
#include "../alloc/tags.h"
#include "../heap/transfer.h"
#include "../page/holes.h"
#include "../page/remote.h"
#include "../page/state.h"

typedef struct marks_s {
  uint64_t bits[MX_PAGE_BLOCKS_MAX / 64];
  size_t count;
} marks_t;

mx_page_t* mx_walk_page_of(const void* p) {
  mx_page_t* const page = mx_pagemap_find(p);
  if (p == NULL || page == NULL) return NULL;
  // In a window of the page map an address from elsewhere may meet a record of ours.
  if ((size_t)((const uint8_t*)p - page->start) >= mx_page_span(page)) return NULL;
  // A page that is kept for the next heap belongs to none.
  return mx_load_relaxed(&mx_page_heap(page)->id) == MX_HEAP_GONE ? NULL : page;
}

// ---- free blocks -------------------------------------------------------------------------------

static void mark_not_live(const mx_page_t* page, marks_t* marks) {
  for (size_t i = 0; i < page->capacity; i++) {
    if (mx_page_has_live(page, page->start + i * page->block_size)) continue;
    mx_set_bit(marks->bits, i);
    marks->count++;
  }
}

static void mark_page(const mx_page_t* page, marks_t* marks) {
  memset(marks, 0, sizeof(*marks));
  if (mx_page_is_huge(page)) return;
  mx_holes_forbid();
  if (MX_KNOWS_LIVE) {
    mark_not_live(page, marks);
  } else {
    mx_freelist_mark(page, page->free, marks->bits, &marks->count);
    const mx_remote_list_t remote = mx_remote_list_of(mx_load_acquire(&page->remote));
    mx_freelist_mark(page, remote.first, marks->bits, &marks->count);
    marks->count += mx_holes_mark(page, marks->bits);
  }
  mx_holes_allow();
}

size_t mx_walk_live_count(const mx_page_t* page) {
  marks_t marks;
  mark_page(page, &marks);
  return page->capacity - marks.count;
}

// ---- visiting ----------------------------------------------------------------------------------

static bool visit_blocks_of(const mx_page_t* page, const mi_heap_area_t* area, const marks_t* marks,
                            const mx_visit_t* visit) {
  const mi_heap_t* const heap = (const mi_heap_t*)(const void*)mx_page_heap(page);
  for (size_t i = 0; i < page->capacity; i++) {
    if (mx_has_bit(marks->bits, i)) continue;
    uint8_t* const block = page->start + i * page->block_size;
    void* const given = (mx_has_tags() ? mx_tags_again(block) : block);
    if (!visit->visitor(heap, area, given, area->block_size, visit->arg)) return false;
  }
  return true;
}

static bool visit_page(const mx_page_t* page, const mx_visit_t* visit) {
  if (page->bin == 0) return true;  // places for blocks of 0 bytes in hardened builds
  if (visit->only_abandoned) {
    if (mx_page_is_huge(page) || (mx_load_relaxed(&page->remote) & MX_OWNED) != 0) return true;
  }
  mx_heap_t* const heap = mx_page_heap(page);
  marks_t marks;
  mark_page(page, &marks);
  mi_heap_area_t area;
  memset(&area, 0, sizeof(area));
  area.blocks = page->start;
  area.reserved = (mx_page_is_huge(page) ? 1 : page->reserved) * page->block_size;
  area.committed = page->capacity * page->block_size;
  area.used = page->capacity - marks.count;
  area.full_block_size = page->block_size;
  area.block_size = page->block_size - (mx_page_is_guarded(page) ? 0 : MX_PAD);
  // Programs of versions 1 and 2 see an int here.
  memcpy(&area.reserved1, &heap->tag, sizeof(heap->tag));
  const mi_heap_t* const handle = (const mi_heap_t*)(const void*)heap;
  if (!visit->visitor(handle, &area, NULL, area.block_size, visit->arg)) return false;
  return !visit->with_blocks || visit_blocks_of(page, &area, &marks, visit);
}

static bool visit_main_heap(const mx_heap_t* heap, const mx_visit_t* visit) {
  const mx_arenas_t* const arenas = &heap->subproc->arenas;
  const size_t count = mx_load_acquire(&arenas->count);
  for (size_t i = 0; i < count; i++) {
    const mx_arena_t* const arena = mx_arena_at(arenas, i);
    size_t index = 0;
    for (mx_page_t* page; arena != NULL && (page = mx_page_next_in(arena, &index)) != NULL;) {
      if (mx_page_heap(page) == heap && !visit_page(page, visit)) return false;
    }
  }
  for (const mx_page_t* page = heap->subproc->os_pages; page != NULL; page = page->next) {
    if (mx_page_heap(page) == heap && !visit_page(page, visit)) return false;
  }
  size_t index = 0;
  for (const mx_page_t* page; (page = mx_guarded_next(&index)) != NULL;) {
    if (mx_page_heap(page) == heap && !visit_page(page, visit)) return false;
  }
  return true;
}

bool mx_walk_heap(mx_heap_t* heap, const mx_visit_t* visit) {
  mx_call_do_pending();
  mx_spare_flush(mx_tls_theap);
  mx_transfer_flush(true);
  if (mx_heap_is_main(heap)) return visit_main_heap(heap, visit);
  for (const mx_page_t* page = heap->pages; page != NULL; page = page->heap_next) {
    if (!visit_page(page, visit)) return false;
  }
  return true;
}

static bool visit_list(const mx_page_t* page, const mx_visit_t* visit) {
  for (; page != NULL; page = page->next) {
    if (!visit_page(page, visit)) return false;
  }
  return true;
}

bool mx_walk_theap(const mx_theap_t* theap, const mx_visit_t* visit) {
  mx_call_do_pending();
  mx_spare_flush(mx_tls_theap);
  mx_transfer_flush(true);
  for (size_t bin = 1; bin < MX_BIN_COUNT; bin++) {
    const mx_page_t* const current = theap->bins.current[bin];
    if (current != &mx_page_none && !visit_page(current, visit)) return false;
    if (!visit_list(theap->lists.partial[bin], visit) ||
        !visit_list(theap->lists.full[bin], visit)) {
      return false;
    }
  }
  return true;
}

bool mx_walk_subproc(mx_subproc_t* subproc, int tag, const mx_visit_t* visit) {
  for (mx_heap_t *next = subproc->heaps, *heap; (heap = next) != NULL;) {
    next = heap->next;
    if ((tag < 0 || heap->tag == tag) && !mx_walk_heap(heap, visit)) return false;
  }
  return true;
}
