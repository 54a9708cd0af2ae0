// SPDX-License-Identifier: MIT
// Owns the life of a thread as the library sees it: its first allocation gives it a theap, its end
// abandons what it leaves, and whatever it does after that starts anew.
#include "../mem/vmem.h"
#include "../os/os.h"
#include "../os/thread.h"
#include "heap.h"

mx_subproc_t mx_subproc_main;

#define NONE1 &mx_page_none,
#define NONE2 NONE1 NONE1
#define NONE8 NONE2 NONE2 NONE2 NONE2
#define NONE64 NONE8 NONE8 NONE8 NONE8 NONE8 NONE8 NONE8 NONE8
#define EMPTY_THEAP                                                                             \
  {                                                                                             \
    {NULL}, 0, NULL, {NONE64 NONE64 NONE8 NONE2}, {NULL}, {NULL}, {0}, {0}, {NULL}, {0}, 0, 0, \
        0, false, 0, NULL, NULL, NULL, NULL, NULL, 0                                             \
  }
mx_theap_t mx_theap_empty = EMPTY_THEAP;
mx_theap_t mx_theap_ended = EMPTY_THEAP;
mx_static_assert(MX_BIN_COUNT == 64 + 64 + 8 + 2, "every bin of the empty theap has a page");

mx_thread_local mx_theap_t* mx_tls_theap = &mx_theap_empty;

// ---- start -------------------------------------------------------------------------------------

enum { NOT_STARTED, STARTED, FAILED };

static mx_atomic(int) start_state;
static mx_lock_t start_lock;

bool mx_heap_start(void) {
  if (mx_load_acquire(&start_state) == STARTED) return true;
  mx_lock_acquire(&start_lock);
  if (mx_load_relaxed(&start_state) != STARTED) {
    mx_os_init();
    mx_heap_t* main_heap = &mx_subproc_main.main_heap;
    main_heap->subproc = &mx_subproc_main;
    main_heap->numa_node = -1;
    mx_subproc_main.heaps = main_heap;
    mx_vmem_reserve_first(mx_pagemap_reserve_size(), MX_ARENA_RESERVE);
    const bool ok = mx_pagemap_init();
    mx_store_release(&start_state, ok ? STARTED : FAILED);
  }
  mx_lock_release(&start_lock);
  return mx_load_relaxed(&start_state) == STARTED;
}

// ---- theap records -----------------------------------------------------------------------------

static mx_theap_t* theap_alloc(mx_subproc_t* subproc) {
  mx_lock_acquire(&subproc->lock);
  mx_theap_t* theap = subproc->free_theaps;
  if (theap != NULL) subproc->free_theaps = theap->next_in_heap;
  mx_lock_release(&subproc->lock);
  if (theap != NULL) return theap;
  theap = (mx_theap_t*)mx_meta_alloc(sizeof(mx_theap_t));
  if (theap == NULL) return NULL;
  for (size_t bin = 0; bin < MX_BIN_COUNT; bin++) theap->current[bin] = &mx_page_none;
  return theap;
}

static mx_theap_t* theap_new(mx_heap_t* heap, mx_theap_t* first) {
  mx_theap_t* theap = theap_alloc(heap->subproc);
  if (theap == NULL) return NULL;
  theap->tid = mx_thread_id() | (mx_pagemap_is_window() ? 1 : 0);
  theap->heap = heap;
  theap->subproc = heap->subproc;
  theap->visits = 0;
  theap->in_deferred_free = false;
  theap->first = (first == NULL ? theap : first);
  theap->next_in_thread = (first == NULL ? NULL : first->next_in_thread);
  if (first != NULL) first->next_in_thread = theap;
  mx_lock_acquire(&heap->lock);
  theap->prev_in_heap = NULL;
  theap->next_in_heap = heap->theaps;
  if (heap->theaps != NULL) heap->theaps->prev_in_heap = theap;
  heap->theaps = theap;
  mx_lock_release(&heap->lock);
  mx_count_add(&heap->counters.theaps, 1);
  return theap;
}

static void theap_delete(mx_theap_t* theap) {
  mx_heap_t* const heap = theap->heap;
  mx_theap_abandon_all(theap);
  mx_lock_acquire(&heap->lock);
  if (theap->prev_in_heap != NULL) theap->prev_in_heap->next_in_heap = theap->next_in_heap;
  else heap->theaps = theap->next_in_heap;
  if (theap->next_in_heap != NULL) theap->next_in_heap->prev_in_heap = theap->prev_in_heap;
  mx_lock_release(&heap->lock);
  mx_count_add(&heap->counters.theaps, -1);
  mx_subproc_t* const subproc = theap->subproc;
  theap->heap = NULL;
  mx_lock_acquire(&subproc->lock);
  theap->next_in_heap = subproc->free_theaps;
  subproc->free_theaps = theap;
  mx_lock_release(&subproc->lock);
}

// ---- threads -----------------------------------------------------------------------------------

mx_theap_t* mx_thread_theap(void) {
  mx_theap_t* theap = mx_tls_theap;
  if (mx_likely(theap->heap != NULL)) return theap;
  if (!mx_heap_start()) return NULL;
  theap = theap_new(&mx_subproc_main.main_heap, NULL);
  if (theap == NULL) return NULL;
  mx_tls_theap = theap;
  mx_count_add(&mx_subproc_main.main_heap.counters.threads, 1);
  // May allocate itself, which works already.
  mx_os_thread_arm(theap);
  return theap;
}

mx_theap_t* mx_thread_theap_of(mx_heap_t* heap, bool create) {
  mx_theap_t* theap = mx_tls_theap;
  if (theap->heap == heap) return theap;
  if (theap->heap == NULL) {
    theap = (create ? mx_thread_theap() : NULL);
    if (theap == NULL || theap->heap == heap) return theap;
  }
  mx_theap_t* const first = theap->first;
  for (theap = first; theap != NULL; theap = theap->next_in_thread) {
    if (theap->heap == heap) return theap;
  }
  return create ? theap_new(heap, first) : NULL;
}

void mx_thread_done(void* first_theap) {
  mx_theap_t* theap = (mx_theap_t*)first_theap;
  if (theap == NULL || theap->heap == NULL) return;
  mx_tls_theap = &mx_theap_ended;
  mx_count_add(&mx_subproc_main.main_heap.counters.threads, -1);
  while (theap != NULL) {
    mx_theap_t* const next = theap->next_in_thread;
    theap_delete(theap);
    theap = next;
  }
}

// ---- fork --------------------------------------------------------------------------------------

void mx_heap_before_fork(void) {
  mx_lock_acquire(&mx_subproc_main.lock);
  mx_lock_acquire(&mx_subproc_main.main_heap.lock);
  mx_lock_acquire(&mx_subproc_main.arenas.lock);
}

void mx_heap_after_fork_parent(void) {
  mx_lock_release(&mx_subproc_main.arenas.lock);
  mx_lock_release(&mx_subproc_main.main_heap.lock);
  mx_lock_release(&mx_subproc_main.lock);
}

void mx_heap_after_fork(void) {
  mx_lock_reset(&mx_subproc_main.arenas.lock);
  mx_lock_reset(&mx_subproc_main.main_heap.lock);
  mx_lock_reset(&mx_subproc_main.lock);
  mx_lock_reset(&start_lock);
  mx_meta_after_fork();
}
