// SPDX-License-Identifier: MIT
// Owns huge blocks: each alone in a page of its own, from the arenas, or beyond
// `arena_max_object_size` (and when arenas refuse) from a mapping of its own.
//
// Resizing avoids copies: within the slices it has; into free slices behind it; else the page
// tables move to a new place, which costs microseconds where copying costs milliseconds.
#include <string.h>

#include "../base/facts.h"
#include "../base/hooks.h"
#include "../base/options.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "../page/remote.h"
#include "alloc.h"

// Moving page tables pays from this size on; below, copying is as fast.
#define MOVE_MIN (256 * MX_KIB)

#define EAGAIN_ 11

// ---- mappings of their own ---------------------------------------------------------------------

static mx_lock_t records_lock;
static mx_page_t* free_records;

static mx_page_t* record_alloc(void) {
  mx_lock_acquire(&records_lock);
  mx_page_t* page = free_records;
  if (page != NULL) free_records = page->next;
  mx_lock_release(&records_lock);
  return page != NULL ? page : (mx_page_t*)mx_meta_alloc(MX_PAGE_RECORD_SIZE);
}

static void record_free(mx_page_t* page) {
  mx_lock_acquire(&records_lock);
  page->next = free_records;
  free_records = page;
  mx_lock_release(&records_lock);
}

static void link_os_page(mx_subproc_t* subproc, mx_page_t* page) {
  mx_lock_acquire(&subproc->lock);
  page->next = subproc->os_pages;
  page->prev = NULL;
  if (subproc->os_pages != NULL) subproc->os_pages->prev = page;
  subproc->os_pages = page;
  mx_lock_release(&subproc->lock);
}

static void unlink_os_page(mx_subproc_t* subproc, mx_page_t* page) {
  mx_lock_acquire(&subproc->lock);
  if (page->prev != NULL) page->prev->next = page->next;
  else subproc->os_pages = page->next;
  if (page->next != NULL) page->next->prev = page->prev;
  mx_lock_release(&subproc->lock);
}

static mx_page_t* os_page(mx_heap_t* heap, size_t slices, size_t align, mx_slices_t* out) {
  if (heap->arena != NULL || mx_option(disallow_os_alloc) != 0) return NULL;
  // A window of the page map has no place for addresses from anywhere.
  if (mx_pagemap_is_window()) return NULL;
  mx_page_t* page = record_alloc();
  if (page == NULL) return NULL;
  const size_t size = slices * MX_SLICE_SIZE;
  out->start = (uint8_t*)mx_vmem_map(size, align * MX_SLICE_SIZE, true);
  if (out->start == NULL) {
    record_free(page);
    return NULL;
  }
  mx_count_add(&mx_process_counters.committed, (int64_t)size);
  out->arena = NULL;
  out->index = 0;
  out->count = slices;
  out->is_zero = true;
  return page;
}

// ---- allocating and freeing --------------------------------------------------------------------

static mx_page_t* get_slices(mx_heap_t* heap, size_t count, size_t align, mx_slices_t* out) {
  const mx_slices_request_t request = {count, align, heap->arena, heap->numa_node};
  const size_t most = (size_t)mx_option(arena_max_object_size) * MX_KIB;
  if (count * MX_SLICE_SIZE <= most && mx_slices_alloc(&heap->subproc->arenas, &request, out)) {
    return mx_arena_record(out->arena, out->index);
  }
  return os_page(heap, count, align, out);
}

static void give_back(mx_page_t* page) {
  mx_subproc_t* const subproc = page->heap->subproc;
  if (page->arena != NULL) {
    mx_slices_free(&subproc->arenas, page->arena, page->slice_index, page->slice_count);
    mx_arenas_purge_tick(&subproc->arenas);
  } else {
    unlink_os_page(subproc, page);
    mx_vmem_unmap(page->start, mx_page_size(page), mx_page_size(page));
    record_free(page);
  }
}

void* mx_huge_alloc(mx_heap_t* heap, size_t size, size_t align, bool zero) {
  if (size > MX_MAX_ALLOC - MX_SLICE_SIZE) return NULL;
  const size_t bytes = mx_align_up(size + (MX_PADDING ? 8 : 0), mx_facts.os_page);
  mx_slices_t slices;
  const size_t align_slices = mx_max(align / MX_SLICE_SIZE, 1);
  mx_page_t* page =
      get_slices(heap, mx_div_up(bytes, MX_SLICE_SIZE), align_slices, &slices);
  if (page == NULL) return NULL;
  mx_page_init(page, &slices, bytes, MX_BIN_HUGE, heap);
  page->capacity = page->used = 1;
  if (!mx_pagemap_set(page->start, page->slice_count, page)) {
    if (page->arena == NULL) link_os_page(heap->subproc, page);
    give_back(page);
    return NULL;
  }
  if (page->arena == NULL) link_os_page(heap->subproc, page);
  mx_heap_link_page(heap, page);
  mx_count_add(&heap->counters.malloc_huge, (int64_t)bytes);
  mx_counter_add(&heap->counters.malloc_huge_count, 1);
  // From now on the owned bit is clear: whoever sets it frees the block.
  mx_store_release(&page->remote, (uintptr_t)0);
  if (zero && !slices.is_zero) memset(page->start, 0, bytes);
  return page->start;
}

void mx_huge_free(mx_page_t* page) {
  if (!mx_remote_try_claim(page)) {
    mx_error(EAGAIN_, "free: double free detected of block %p (size %zu)\n", (void*)page->start,
             page->block_size);
    return;
  }
  mx_heap_unlink_page(page->heap, page);
  mx_count_add(&page->heap->counters.malloc_huge, -(int64_t)page->block_size);
  mx_pagemap_set(page->start, page->slice_count, NULL);
  give_back(page);
}

// ---- resizing ----------------------------------------------------------------------------------

static void set_size(mx_page_t* page, size_t bytes) {
  mx_count_add(&page->heap->counters.malloc_huge, (int64_t)bytes - (int64_t)page->block_size);
  page->block_size = bytes;
}

// What lies between the old and the new end was never part of the block: it may hold old data.
static void clear_tail(mx_page_t* page, size_t old_bytes, size_t bytes, bool zero) {
  if (zero && bytes > old_bytes) memset(page->start + old_bytes, 0, bytes - old_bytes);
}

static bool shrink(mx_page_t* page, size_t bytes) {
  const size_t keep = mx_div_up(bytes, MX_SLICE_SIZE);
  const size_t drop = page->slice_count - keep;
  if (drop > 0 && page->arena != NULL) {
    mx_subproc_t* const subproc = page->heap->subproc;
    mx_pagemap_set(page->start + keep * MX_SLICE_SIZE, drop, NULL);
    page->slice_count = (uint32_t)keep;
    mx_slices_free(&subproc->arenas, page->arena, page->slice_index + keep, drop);
  }
  set_size(page, bytes);
  return true;
}

static bool grow_in_place(mx_page_t* page, size_t bytes, bool zero) {
  const size_t old_bytes = page->block_size;
  const size_t need = mx_div_up(bytes, MX_SLICE_SIZE);
  if (need > page->slice_count) {
    if (page->arena == NULL) return false;
    const size_t more = need - page->slice_count;
    bool is_zero;
    if (!mx_slices_extend(&page->heap->subproc->arenas, page->arena,
                          page->slice_index + page->slice_count, more, &is_zero)) {
      return false;
    }
    if (!mx_pagemap_set(page->start + mx_page_size(page), more, page)) {
      mx_slices_free(&page->heap->subproc->arenas, page->arena,
                     page->slice_index + page->slice_count, more);
      return false;
    }
    page->slice_count = (uint32_t)need;
  }
  clear_tail(page, old_bytes, bytes, zero);
  set_size(page, bytes);
  return true;
}

// Room to grow again is reserved with each move, so that n small steps move O(log n) times; what
// is not touched costs address space only.
static void* move(mx_page_t* page, size_t bytes, bool zero) {
  mx_heap_t* const heap = page->heap;
  const size_t old_bytes = page->block_size;
  if (old_bytes < MOVE_MIN || (page->arena != NULL && page->arena->is_pinned)) return NULL;
  void* fresh = mx_huge_alloc(heap, mx_max(bytes, old_bytes + old_bytes / 2), 1, false);
  if (fresh == NULL) fresh = mx_huge_alloc(heap, bytes, 1, false);
  if (fresh == NULL) return NULL;
  mx_page_t* const target = mx_pagemap_get(fresh);
  if (!mx_os_move(page->start, fresh, old_bytes)) {
    mx_huge_free(target);
    return NULL;
  }
  clear_tail(target, old_bytes, target->block_size, zero);
  if (target->block_size > bytes) set_size(target, bytes);
  mx_huge_free(page);
  return fresh;
}

void* mx_huge_realloc(mx_page_t* page, size_t size, bool zero) {
  if (MX_PADDING || size > MX_MAX_ALLOC - MX_SLICE_SIZE) return NULL;
  const size_t bytes = mx_align_up(size, mx_facts.os_page);
  if (bytes <= MX_BIN_MAX_SIZE) return NULL;
  if (bytes <= page->block_size) return shrink(page, bytes) ? page->start : NULL;
  if (grow_in_place(page, bytes, zero)) return page->start;
  return move(page, bytes, zero);
}
