// SPDX-License-Identifier: MIT
// The records of heaps: their pool, and the list of a sub-process' heaps.
//
// Records are recycled within their sub-process, since an outdated pointer may still lead there.
// Their slot stays, so that the tables of threads stay dense.
#include "../mem/vmem.h"
#include "adopt.h"
#include "heap_record.h"
#include "own_ranges.h"

mx_subproc_t mx_subproc_main;

static mx_at_start mx_atomic(size_t) heap_slots;
static mx_at_start mx_atomic(uint64_t) heap_ids;

static void heap_init(mx_heap_t* heap, mx_subproc_t* subproc) {
  heap->theaps = NULL;  // of the main heap a write first: reading a fresh OS page is a fault more
  if (heap->slot == 0) {
    // Both for good: a thread with an outdated pointer to the record may read them at any time.
    heap->slot = mx_add_relaxed(&heap_slots, 1) + 1;
    heap->subproc = subproc;
  }
  heap->pages = heap->search_from = NULL;
  heap->arena = NULL;
  heap->numa_node = -1;
  heap->tag = 0;
  heap->allow_destroy = true;
  for (size_t i = 0; i < MX_BIN_WORDS; i++) heap->bins[i] = 0;
  mx_store_relaxed(&heap->listed, (size_t)0);
  mx_store_relaxed(&heap->id, mx_add_relaxed(&heap_ids, 1));
}

// The sub-process' lock is held.
static void heap_enter(mx_heap_t* heap, mx_subproc_t* subproc) {
  mx_check(mx_lock_is_mine(&subproc->lock));
  heap_init(heap, subproc);
  mx_check(heap->theaps == NULL && heap->pages == NULL);
  heap->prev = NULL;
  heap->next = subproc->heaps;
  if (heap->next != NULL) heap->next->prev = heap;
  subproc->heaps = heap;
  mx_count_add(&subproc->main_heap.counters.heaps, 1);
}

// The main heap is part of its sub-process' record.
void mx_heap_init_main(mx_subproc_t* subproc) {
  mx_lock_acquire(&subproc->lock);
  heap_enter(&subproc->main_heap, subproc);
  mx_lock_release(&subproc->lock);
}

// The sub-process' lock is held, as for the next one.
static void put_record(mx_subproc_t* subproc, mx_heap_t* heap) {
  mx_check(mx_lock_is_mine(&subproc->lock) && !mx_heap_is_main(heap));
  heap->next = subproc->free_heaps;
  subproc->free_heaps = heap;
  const size_t kept = mx_load_relaxed(&subproc->cached_pages);
  mx_store_relaxed(&subproc->cached_pages, kept + mx_load_relaxed(&heap->cached_count));
}

static mx_heap_t* take_record(mx_subproc_t* subproc, mx_heap_t** at) {
  mx_check(mx_lock_is_mine(&subproc->lock));
  mx_heap_t* const heap = *at;
  if (heap == NULL) return NULL;
  *at = heap->next;
  mx_check(heap->subproc == subproc);
  const size_t kept = mx_load_relaxed(&subproc->cached_pages);
  mx_check(kept >= mx_load_relaxed(&heap->cached_count));
  mx_store_relaxed(&subproc->cached_pages, kept - mx_load_relaxed(&heap->cached_count));
  return heap;
}

void mx_heap_cache_drop(mx_heap_t* heap) {
  mx_arenas_t* const arenas = &heap->subproc->arenas;
  mx_call_enter();  // what goes is on no list, as a vanished thread's
  mx_check(mx_load_relaxed(&heap->cached_count) <= MX_HEAP_CACHED_MAX);
  // What goes is not kept any more, for a fork in between.
  for (uint32_t left = mx_load_relaxed(&heap->cached_count); left-- > 0;) {
    mx_store_relaxed(&heap->cached_count, left);
    mx_fence_compiler();
    mx_page_drop(arenas, heap->cached[left]);
  }
  mx_call_leave();
}

mx_heap_t* mx_heap_create(mx_subproc_t* subproc, mx_arena_t* arena, int tag, bool allow_destroy) {
  mx_lock_acquire(&subproc->lock);
  mx_heap_t* heap = take_record(subproc, &subproc->free_heaps);
  if (heap == NULL) {
    mx_lock_release(&subproc->lock);
    heap = (mx_heap_t*)mx_meta_alloc(sizeof(mx_heap_t));
    if (heap == NULL) return NULL;
    mx_lock_acquire(&subproc->lock);
  }
  heap_enter(heap, subproc);
  mx_lock_release(&subproc->lock);
  if (arena != NULL) mx_heap_cache_drop(heap);
  heap->arena = arena;
  if (MX_ISOLATE && arena == NULL && mx_option(disallow_os_alloc) == 0 && mx_vmem_has_once()) {
    mx_partition_begin(&heap->partition, mx_load_relaxed(&heap->id));
  }
  heap->tag = tag;
  heap->allow_destroy = allow_destroy;
  return heap;
}

void mx_heap_recycle(mx_heap_t* heap) {
  mx_check(heap->theaps == NULL);
  mx_subproc_t* const subproc = heap->subproc;
  mx_store_relaxed(&heap->id, MX_HEAP_GONE);
  if (mx_heap_is_isolated(heap)) {
    mx_ranges_end(heap);
    mx_partition_end(&subproc->arenas, &heap->partition);
  }
  mx_lock_acquire(&subproc->lock);
  mx_check(heap->prev == NULL ? subproc->heaps == heap : heap->prev->next == heap);
  if (heap->prev != NULL) heap->prev->next = heap->next;
  else subproc->heaps = heap->next;
  if (heap->next != NULL) heap->next->prev = heap->prev;
  mx_count_add_locked(&subproc->main_heap.counters.heaps, -1);
  if (!mx_heap_is_main(heap)) put_record(subproc, heap);
  mx_fork_forget(&heap->lock);
  mx_lock_release(&subproc->lock);
}

// Takes a record with kept pages out of the pool.
static mx_heap_t* take_with_cached(mx_subproc_t* subproc) {
  mx_lock_acquire(&subproc->lock);
  mx_heap_t** at = &subproc->free_heaps;
  while (*at != NULL && mx_load_relaxed(&(*at)->cached_count) == 0) at = &(*at)->next;
  mx_heap_t* const heap = take_record(subproc, at);
  mx_lock_release(&subproc->lock);
  return heap;
}

void mx_heap_release_cached(mx_subproc_t* subproc) {
  if (mx_load_relaxed(&subproc->cached_pages) == 0) return;
  mx_call_enter();  // the record is on no list meanwhile
  for (mx_heap_t* heap; (heap = take_with_cached(subproc)) != NULL;) {
    mx_heap_cache_drop(heap);
    mx_lock_acquire(&subproc->lock);
    put_record(subproc, heap);
    mx_lock_release(&subproc->lock);
  }
  mx_call_leave();
}
