// SPDX-License-Identifier: MIT
// Owns the records of heaps: their pool, and the list of a sub-process' heaps.
//
// Records are recycled. Their slot stays, so that the tables of threads stay dense; so does their
// sub-process until they serve another, since an outdated pointer may still lead here.
#include "../mem/vmem.h"
#include "heap.h"

static mx_lock_t heap_records_lock;
static mx_heap_t* heap_records;
static size_t heap_record_count;  // also the slots that were given out
static mx_atomic(uint64_t) heap_ids;

static mx_heap_t* heap_record(void) {
  mx_lock_acquire(&heap_records_lock);
  mx_heap_t* heap = heap_records;
  if (heap != NULL) heap_records = heap->next;
  mx_lock_release(&heap_records_lock);
  if (heap != NULL) return heap;
  heap = (mx_heap_t*)mx_meta_alloc(sizeof(mx_heap_t));
  if (heap == NULL) return NULL;
  mx_lock_acquire(&heap_records_lock);
  heap->slot = ++heap_record_count;
  mx_lock_release(&heap_records_lock);
  return heap;
}

void mx_heap_lock_records(void) { mx_lock_acquire(&heap_records_lock); }

void mx_heap_unlock_records(void) { mx_lock_release(&heap_records_lock); }

static void heap_init(mx_heap_t* heap, mx_subproc_t* subproc) {
  heap->subproc = subproc;
  heap->theaps = NULL;
  heap->pages = NULL;
  heap->arena = NULL;
  heap->numa_node = -1;
  heap->tag = 0;
  heap->allow_destroy = true;
  mx_store_relaxed(&heap->listed, (size_t)0);
  mx_store_relaxed(&heap->id, mx_add_relaxed(&heap_ids, 1));
}

static void heap_enter(mx_heap_t* heap) {
  mx_subproc_t* const subproc = heap->subproc;
  mx_lock_acquire(&subproc->lock);
  heap->prev = NULL;
  heap->next = subproc->heaps;
  if (heap->next != NULL) heap->next->prev = heap;
  subproc->heaps = heap;
  mx_count_add(&subproc->counters.heaps, 1);
  mx_lock_release(&subproc->lock);
}

// The main heap is part of its sub-process' record. Its slot is given out once.
void mx_heap_init_main(mx_subproc_t* subproc) {
  mx_heap_t* const heap = &subproc->main_heap;
  if (heap->slot == 0) {
    mx_lock_acquire(&heap_records_lock);
    heap->slot = ++heap_record_count;
    mx_lock_release(&heap_records_lock);
  }
  heap_init(heap, subproc);
  heap_enter(heap);
}

mx_heap_t* mx_heap_create(mx_subproc_t* subproc, mx_arena_t* arena, int tag, bool allow_destroy) {
  mx_heap_t* const heap = heap_record();
  if (heap == NULL) return NULL;
  heap_init(heap, subproc);
  heap->arena = arena;
  heap->tag = tag;
  heap->allow_destroy = allow_destroy;
  heap_enter(heap);
  return heap;
}

void mx_heap_recycle(mx_heap_t* heap) {
  mx_subproc_t* const subproc = heap->subproc;
  mx_store_relaxed(&heap->id, MX_HEAP_GONE);
  mx_lock_acquire(&subproc->lock);
  if (heap->prev != NULL) heap->prev->next = heap->next;
  else subproc->heaps = heap->next;
  if (heap->next != NULL) heap->next->prev = heap->prev;
  mx_count_add(&subproc->counters.heaps, -1);
  mx_lock_release(&subproc->lock);
  if (mx_heap_is_main(heap)) return;
  mx_lock_acquire(&heap_records_lock);
  heap->next = heap_records;
  heap_records = heap;
  mx_lock_release(&heap_records_lock);
}
