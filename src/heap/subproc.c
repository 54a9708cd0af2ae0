// SPDX-License-Identifier: MIT
// Sub-processes: each has arenas and heaps of its own, so that all it holds can go at once.
//
// The main one is static and always there. Records of the others are recycled, as those of heaps
// are. The list of sub-processes has a lock of its own, the first in the order of locks. A thread
// that does longer things with sub-processes of others steps through the list: the one that it is
// at stays, and its end waits for that thread. An ending one stays in the list until all that it
// has is gone, since a fork has to find it.
#include <string.h>

#include "../mem/vmem.h"
#include "../os/thread.h"
#include "heap_end.h"
#include "heap_record.h"
#include "os_pages.h"
#include "page_list.h"
#include "parked.h"
#include "subproc.h"
#include "theap_record.h"
#include "thread_life.h"
#include "transfer.h"

mx_at_start mx_lock_t mx_subproc_list_lock;

static mx_subproc_t* subproc_records;
static mx_subproc_t* subproc_last;  // NULL: the main one

mx_subproc_t* mx_subproc_create(void) {
  if (!mx_heap_start()) return NULL;
  mx_lock_acquire(&mx_subproc_list_lock);
  mx_subproc_t* subproc = subproc_records;
  if (subproc != NULL) subproc_records = subproc->next;
  mx_lock_release(&mx_subproc_list_lock);
  if (subproc == NULL) subproc = (mx_subproc_t*)mx_meta_alloc(sizeof(mx_subproc_t));
  if (subproc == NULL) return NULL;
  mx_heap_init_main(subproc);
  mx_lock_acquire(&mx_subproc_list_lock);
  mx_check(subproc->visitors == 0 && !subproc->is_ending);
  subproc->next = NULL;
  subproc->prev = (subproc_last != NULL ? subproc_last : &mx_subproc_main);
  subproc->prev->next = subproc;
  subproc_last = subproc;
  mx_lock_release(&mx_subproc_list_lock);
  return subproc;
}

mx_subproc_t* mx_subproc_step(mx_subproc_t* at) {
  mx_lock_acquire(&mx_subproc_list_lock);
  mx_subproc_t* next = (at == NULL ? &mx_subproc_main : at->next);
  while (next != NULL && next->is_ending) next = next->next;
  if (next != NULL) next->visitors++;
  if (at != NULL && at->visitors > 0) at->visitors--;  // none are left after a fork
  mx_lock_release(&mx_subproc_list_lock);
  return next;
}

// Nobody visits it any more.
static void begin_end(mx_subproc_t* subproc) {
  mx_check(subproc != &mx_subproc_main);
  for (unsigned turn = 0;; turn++) {
    mx_lock_acquire(&mx_subproc_list_lock);
    subproc->is_ending = true;
    const bool is_alone = (subproc->visitors == 0);
    mx_lock_release(&mx_subproc_list_lock);
    if (is_alone) return;
    mx_pause(turn);
  }
}

static void subproc_recycle(mx_subproc_t* subproc) {
  mx_lock_acquire(&mx_subproc_list_lock);
  mx_check(subproc->is_ending && subproc->visitors == 0 && subproc->prev->next == subproc);
  subproc->prev->next = subproc->next;
  if (subproc->next != NULL) subproc->next->prev = subproc->prev;
  else subproc_last = subproc->prev;
  subproc->is_ending = false;
  subproc->next = subproc_records;
  subproc_records = subproc;
  mx_fork_forget(&subproc->lock);
  mx_fork_forget(&subproc->arenas.lock);
  mx_lock_release(&mx_subproc_list_lock);
}

static mx_heap_t* any_first_class_heap(mx_subproc_t* subproc) {
  mx_lock_acquire(&subproc->lock);
  mx_heap_t* heap = subproc->heaps;
  while (heap != NULL && mx_heap_is_main(heap)) heap = heap->next;
  mx_lock_release(&subproc->lock);
  return heap;
}

// ---- destroying --------------------------------------------------------------------------------

// What is the user's again is as it was: without guards behind blocks that were not freed.
static void take_guards_away(const mx_subproc_t* subproc) {
  size_t item = 0, index = 0;
  for (mx_page_t* page; (page = mx_page_next_of(&subproc->arenas, &item, &index)) != NULL;) {
    if (page->arena->mapping == NULL && mx_page_is_huge(page)) mx_page_guard_huge(page, false);
  }
}

// Where blocks are sampled, their notes end with them.
static void end_notes(mx_subproc_t* subproc) {
  size_t item = 0, index = 0;
  if (mx_hooks.end_note == NULL) return;
  for (mx_page_t* page = subproc->os_pages; page != NULL; page = page->next) {
    if (mx_page_has_note(page)) mx_page_end_note(page);
  }
  for (mx_page_t* page; (page = mx_page_next_of(&subproc->arenas, &item, &index)) != NULL;) {
    if (mx_page_has_note(page)) mx_page_end_note(page);
  }
}

static void drop_all(mx_subproc_t* subproc) {
  for (mx_heap_t* heap; (heap = any_first_class_heap(subproc)) != NULL;) mx_heap_destroy(heap);
  mx_heap_release_cached(subproc);
  mx_parked_give_up(subproc, true);
  mx_heap_t* const main_heap = &subproc->main_heap;
  mx_heap_drop_theaps(main_heap);
  mx_check(mx_lock_is_mine(&main_heap->lock) && main_heap->theaps == NULL);
  mx_lock_release(&main_heap->lock);
  end_notes(subproc);
  while (subproc->os_pages != NULL) mx_huge_page_drop(subproc, subproc->os_pages);
  if (MX_GUARD_PAGES) take_guards_away(subproc);
  mx_arenas_destroy(&subproc->arenas);
  for (size_t bin = 0; bin < MX_BIN_COUNT; bin++) {
    mx_store_relaxed(&subproc->listed[bin], (size_t)0);
  }
}

void mx_subproc_destroy(mx_subproc_t* subproc) {
  mx_counters_t* const past = &mx_subproc_main.counters;
  mx_call_enter();
  begin_end(subproc);
  drop_all(subproc);
  mx_heap_recycle(&subproc->main_heap);
  mx_counters_move(past, &subproc->main_heap.counters, NULL, false);
  mx_counters_move(past, &subproc->counters, NULL, false);
  subproc_recycle(subproc);
  mx_call_leave();
}

void mx_subproc_destroy_all(void) {
  while (mx_subproc_main.next != NULL) mx_subproc_destroy(mx_subproc_main.next);
  mx_transfer_forget();
  drop_all(&mx_subproc_main);
  mx_counters_move(&mx_subproc_main.counters, &mx_subproc_main.main_heap.counters, NULL, false);
}

// ---- deleting ----------------------------------------------------------------------------------

// Theaps can be left only of threads that are still there, against the contract.
static void hand_over_theaps(mx_heap_t* from, mx_heap_t* to) {
  mx_check(from != to && mx_heap_is_main(to));
  mx_lock_acquire(&from->lock);
  mx_lock_acquire(&to->lock);
  for (mx_theap_t* theap; (theap = from->theaps) != NULL;) {
    mx_theap_unlink(from, theap);
    mx_theap_link(to, theap);
    mx_theap_orphan(theap);
  }
  mx_lock_release(&to->lock);
  mx_lock_release(&from->lock);
}

static void hand_over_os_pages(mx_subproc_t* from, mx_subproc_t* to) {
  mx_lock_acquire(&to->lock);  // in the order of a fork, which has the main one first
  mx_lock_acquire(&from->lock);
  for (mx_page_t* page; (page = from->os_pages) != NULL;) {
    mx_check(page->arena == NULL && mx_page_is_huge(page));
    mx_list_remove(&from->os_pages, page);
    mx_store_relaxed(&page->heap, &to->main_heap);
    mx_list_push(&to->os_pages, page);
  }
  mx_lock_release(&from->lock);
  mx_lock_release(&to->lock);
}

static void hand_over_arenas(mx_subproc_t* from, mx_subproc_t* to) {
  size_t item = 0, index = 0;
  for (mx_page_t* page; (page = mx_page_next_of(&from->arenas, &item, &index)) != NULL;) {
    mx_store_relaxed(&page->heap, &to->main_heap);
  }
  mx_arenas_hand_over(&from->arenas, &to->arenas);
  for (size_t bin = 0; bin < MX_BIN_COUNT; bin++) {
    mx_add_relaxed(&to->listed[bin], mx_exchange_relaxed(&from->listed[bin], (size_t)0));
  }
}

void mx_subproc_delete(mx_subproc_t* subproc) {
  mx_subproc_t* const to = &mx_subproc_main;
  mx_call_enter();
  begin_end(subproc);
  for (mx_heap_t* heap; (heap = any_first_class_heap(subproc)) != NULL;) mx_heap_delete(heap);
  mx_heap_release_cached(subproc);
  mx_parked_give_up(subproc, true);
  hand_over_theaps(&subproc->main_heap, &to->main_heap);
  hand_over_os_pages(subproc, to);
  hand_over_arenas(subproc, to);
  mx_heap_recycle(&subproc->main_heap);
  mx_check(subproc->os_pages == NULL && mx_load_relaxed(&subproc->arenas.count) == 0);
  mx_counters_move(&to->main_heap.counters, &subproc->main_heap.counters, NULL, true);
  mx_counters_move(&to->counters, &subproc->counters, NULL, true);
  subproc_recycle(subproc);
  mx_call_leave();
}

// ---- arenas ------------------------------------------------------------------------------------

mx_arena_t* mx_subproc_arena_by_id(size_t id, mx_subproc_t** subproc) {
  mx_arena_t* found = NULL;
  if (id == 0) return NULL;
  mx_lock_acquire(&mx_subproc_list_lock);
  for (mx_subproc_t* s = &mx_subproc_main; s != NULL && found == NULL; s = s->next) {
    const size_t count = mx_load_acquire(&s->arenas.count);
    for (size_t i = 0; i < count && found == NULL; i++) {
      mx_arena_t* const arena = mx_arena_at(&s->arenas, i);
      if (arena == NULL || arena->id != id) continue;
      found = arena;
      if (subproc != NULL) *subproc = s;
    }
  }
  mx_lock_release(&mx_subproc_list_lock);
  return found;
}
