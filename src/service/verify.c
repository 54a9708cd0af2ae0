// SPDX-License-Identifier: MIT
// Verifying heaps: see verify.h.
#include "verify.h"

#include "../alloc/harden.h"
#include "../base/hooks.h"
#include "../heap/theap.h"
#include "../os/libc.h"
#include "../page/ends.h"
#include "walk.h"

// The secure build looks at so many blocks when a process ends, which takes a millisecond or two.
#define AT_END_MOST ((size_t)(MX_SECURE >= 5 || MX_DEBUG > 0 ? SIZE_MAX : 1 << 17))

static bool is_live_huge_page(const mx_page_t* page) {
  return (mx_load_relaxed(&page->owner) & MX_OWNER_HUGE) != 0;
}

static bool verify_any_page(mx_page_t* page) {
  if (!mx_page_is_huge(page)) return mx_page_verify(page);
  return mx_ends_are_torn || !is_live_huge_page(page) || mx_harden_check_huge(page, page->start);
}

static bool mi_cdecl verify_area(const mi_heap_t* heap, const mi_heap_area_t* area, void* block,
                                 size_t size, void* arg) {
  (void)heap, (void)block, (void)size;
  bool* const is_sound = (bool*)arg;
  *is_sound = verify_any_page(mx_pagemap_get(area->blocks)) && *is_sound;
  return true;
}

bool mx_verify_heap(mx_heap_t* heap) {
  bool is_sound = true;
  const mx_visit_t visit = {verify_area, &is_sound, false, false};
  mx_hold_errors(true);
  mx_walk_heap(heap, &visit);
  mx_hold_errors(false);
  return is_sound;
}

static void verify_arena(const mx_arena_t* arena, size_t* budget) {
  size_t index = 0;
  for (mx_page_t* page; *budget > 0 && (page = mx_page_next_in(arena, &index)) != NULL;) {
    verify_any_page(page);
    *budget -= mx_min(*budget, mx_max(page->capacity, 1));
  }
}

static void verify_all(mx_subproc_t* subproc) {
  mx_hold_errors(true);
  size_t budget = AT_END_MOST;
  const size_t count = mx_load_acquire(&subproc->arenas.count);
  for (size_t i = 0; i < count; i++) {
    const mx_arena_t* const arena = mx_arena_at(&subproc->arenas, i);
    if (arena != NULL) verify_arena(arena, &budget);
  }
  for (mx_page_t* page = subproc->os_pages; page != NULL; page = page->next) verify_any_page(page);
  mx_hold_errors(false);
}

void mx_verify_at_end(void) {
  if (mx_libc_is_alone()) {
    verify_all(&mx_subproc_main);
    return;
  }
  mx_theap_t* theap = mx_tls_theap->first;
  for (; theap != NULL; theap = theap->links.next_in_thread) {
    if (!mx_lock_try(&theap->lock)) continue;
    if (mx_load_acquire(&theap->heap) != NULL) mx_theap_verify(theap);
    mx_lock_release(&theap->lock);
  }
}
