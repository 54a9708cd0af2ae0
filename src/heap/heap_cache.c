// SPDX-License-Identifier: MIT
// The pages that a heap which was destroyed keeps in its record for the next one: programs
// that make a heap, fill it a little and destroy it do so again and again, and to pass a page
// through the arena each time costs more than all the rest.
//
// Such a page stays mapped and owned, with no list and no counter that knows it. A record keeps a
// few pages of one slice, all records that wait to be used again about MX_HEAP_CACHED_ALL.
// Collecting with force, making holes, fork and the end of a sub-process give them back. Builds
// that keep track of each block keep none, as there a page must begin anew.
#include "../page/holes.h"
#include "heap_cache.h"

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
  const uint32_t count = mx_load_relaxed(&heap->cached_count);
  heap->cached[count] = page;
  mx_check(count < MX_HEAP_CACHED_MAX);
  mx_store_relaxed(&heap->cached_count, count + 1);
  return true;
}

static void relink(mx_page_t* page) {
  mx_check(page->capacity > 0 && page->free == NULL && page->used == 0);
  page->capacity = (uint32_t)mx_min(page->capacity, RELINK_MAX);
  mx_page_link_in_order(page, 0, page->capacity);
}

mx_page_t* mx_heap_cache_take(mx_heap_t* heap, size_t bin) {
  mx_check(mx_lock_is_mine(&heap->lock));
  const uint32_t count = mx_load_relaxed(&heap->cached_count);
  for (uint32_t i = count; i-- > 0;) {
    mx_page_t* const page = heap->cached[i];
    if (page->bin != bin) continue;
    heap->cached[i] = heap->cached[count - 1];
    mx_store_relaxed(&heap->cached_count, count - 1);
    relink(page);
    return page;
  }
  return NULL;
}
