// SPDX-License-Identifier: MIT
// The memory of huge blocks: slices of an arena, or beyond `arena_max_object_size` (and when
// arenas refuse) a mapping of its own, with a record from a pool of its own. The latter pages are
// on a list of their sub-process, which is how they are found when no address leads there.
#include "../base/options.h"
#include "../mem/vmem.h"
#include "../page/remote.h"
#include "adopt.h"
#include "os_pages.h"

static mx_lock_t os_records_lock;
static mx_page_t* os_records;

static mx_page_t* os_record_alloc(void) {
  mx_lock_acquire(&os_records_lock);
  mx_page_t* page = os_records;
  if (page != NULL) os_records = page->next;
  mx_lock_release(&os_records_lock);
  return page != NULL ? page : (mx_page_t*)mx_meta_alloc(MX_PAGE_RECORD_SIZE);
}

static void os_record_free(mx_page_t* page) {
  mx_check(page->arena == NULL);
  mx_lock_acquire(&os_records_lock);
  page->next = os_records;
  os_records = page;
  mx_lock_release(&os_records_lock);
}

bool mx_os_pages_visit_locks(mx_lock_visit_fn* visit) { return visit(&os_records_lock); }

static void link_os_page(mx_subproc_t* subproc, mx_page_t* page) {
  mx_check(page->arena == NULL && mx_page_is_huge(page));
  mx_lock_acquire(&subproc->lock);
  page->next = subproc->os_pages;
  page->prev = NULL;
  if (subproc->os_pages != NULL) subproc->os_pages->prev = page;
  subproc->os_pages = page;
  mx_lock_release(&subproc->lock);
}

static void unlink_os_page(mx_subproc_t* subproc, mx_page_t* page) {
  mx_check(page->arena == NULL && mx_page_is_huge(page));
  mx_lock_acquire(&subproc->lock);
  if (page->prev != NULL) page->prev->next = page->next;
  else subproc->os_pages = page->next;
  if (page->next != NULL) page->next->prev = page->prev;
  mx_lock_release(&subproc->lock);
}

// Addresses cost nothing: with so many times its size behind it a block seldom has to move.
#define ROOM_FACTOR 64
#define ROOM_MOST ((size_t)1 << (MX_64BIT ? 38 : 28))

// Slices from which on a block that grows has a mapping of its own.
#define GROWS_APART ((size_t)1024)

static void* map_with_room(size_t size, size_t align) {
  mx_check(size > 0);
  const bool is_vast = (size > ROOM_MOST / ROOM_FACTOR);
  const size_t room = (is_vast ? mx_max(size, ROOM_MOST) : size * ROOM_FACTOR);
  bool is_refused;
  void* const p = mx_vmem_map_placed(MX_ZONE_FAR, size, room, align, true, &is_refused);
  return p != NULL || is_refused ? p : mx_vmem_map(size, align, true);
}

static mx_page_t* os_page(const mx_heap_t* heap, size_t slices, size_t align, mx_slices_t* out) {
  if (!mx_arenas_allow(&heap->subproc->arenas, slices * MX_SLICE_SIZE)) return NULL;
  mx_page_t* page = os_record_alloc();
  if (page == NULL) return NULL;
  const size_t size = slices * MX_SLICE_SIZE;
  out->start = (uint8_t*)map_with_room(size, align * MX_SLICE_SIZE);
  if (out->start == NULL) {
    os_record_free(page);
    return NULL;
  }
  mx_count_add(&mx_process_counters.committed, (int64_t)size);
  out->arena = NULL;
  out->index = 0;
  out->count = slices;
  out->is_zero = true;
  return page;
}

mx_page_t* mx_huge_page_alloc(mx_heap_t* heap, size_t count, size_t align, bool is_growing,
                              mx_slices_t* out) {
  const mx_slices_request_t request = {count, count, count, align, heap->arena, mx_heap_node(heap),
                                       is_growing};
  const size_t most = (size_t)mx_option(arena_max_object_size) * MX_KIB;
  const bool may_own = (heap->arena == NULL && mx_option(disallow_os_alloc) == 0);
  const bool grows_apart = (MX_PIECEWISE && is_growing && count >= GROWS_APART);
  const bool wants_own = (mx_option(disallow_arena_alloc) != 0 || grows_apart);
  if (may_own && wants_own) return os_page(heap, count, align, out);
  if (count * MX_SLICE_SIZE <= most && mx_slices_alloc(&heap->subproc->arenas, &request, out)) {
    return mx_arena_record(out->arena, out->index);
  }
  return may_own ? os_page(heap, count, align, out) : NULL;
}

bool mx_huge_page_enter(mx_page_t* page) {
  mx_heap_t* const heap = mx_page_heap(page);
  if (page->arena == NULL) link_os_page(heap->subproc, page);
  if (!mx_pagemap_set(page->start, page->slice_count, page)) {
    mx_huge_page_drop(heap->subproc, page);
    return false;
  }
  mx_heap_link_page(heap, page);
  return true;
}

void mx_huge_page_drop(mx_subproc_t* subproc, mx_page_t* page) {
  mx_check(mx_page_is_huge(page));
  if (page->arena != NULL) {
    mx_page_drop(&subproc->arenas, page);
    return;
  }
  mx_store_relaxed(&page->owner, (uintptr_t)0);
  mx_pagemap_set(page->start, page->slice_count, NULL);
  unlink_os_page(subproc, page);
  mx_vmem_unmap(page->start, mx_page_size(page), mx_page_size(page));
  mx_vmem_placed_is_free(MX_ZONE_FAR, page->start, 0);
  os_record_free(page);
}

bool mx_huge_page_extend(mx_page_t* page, size_t more) {
  uint8_t* const end = page->start + mx_page_size(page);
  const size_t size = more * MX_SLICE_SIZE;
  if (!MX_PIECEWISE || more > UINT32_MAX - page->slice_count) return false;
  if (!mx_arenas_allow(&mx_page_heap(page)->subproc->arenas, size)) return false;
  if (mx_vmem_map_at(end, size) != MX_MAP_DONE) return false;
  if (!mx_pagemap_set(end, more, page)) {
    mx_vmem_unmap(end, size, 0);
    return false;
  }
  mx_count_add(&mx_process_counters.committed, (int64_t)size);
  page->slice_count += (uint32_t)more;
  return true;
}

void mx_huge_page_shorten(mx_page_t* page, size_t keep) {
  uint8_t* const end = page->start + keep * MX_SLICE_SIZE;
  const size_t drop = page->slice_count - keep;
  if (MX_MAPS_WHOLE) return;
  mx_pagemap_set(end, drop, NULL);
  page->slice_count = (uint32_t)keep;
  mx_vmem_unmap(end, drop * MX_SLICE_SIZE, drop * MX_SLICE_SIZE);
}

void mx_huge_page_lose(mx_subproc_t* subproc, mx_page_t* page, size_t torn) {
  mx_pagemap_set(page->start, page->slice_count, NULL);
  if (page->arena == NULL) unlink_os_page(subproc, page);
  else mx_bits_clear(page->arena->committed, page->slice_index, torn);
}

// The size is counted with the page's heap, so both change under its lock.
void mx_huge_page_resize(mx_page_t* page, size_t bytes) {
  const int64_t change = (int64_t)bytes - (int64_t)page->block_size;
  for (bool done = false; !done;) {
    mx_heap_t* const heap = mx_page_heap(page);
    const bool has_list = !mx_heap_is_main(heap);
    if (has_list) mx_lock_acquire(&heap->lock);
    done = (mx_page_heap(page) == heap);
    if (done) {
      page->block_size = bytes;
      mx_count_add(&heap->counters.malloc_huge, change);
    }
    if (has_list) mx_lock_release(&heap->lock);
  }
}
