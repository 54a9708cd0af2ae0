// SPDX-License-Identifier: MIT
// The walk that makes holes in all pages of a sub-process, whoever owns them: on request and
// in the background.
//
// A page that is in use all the time would fill its holes at once. So the background asks for idle
// pages: those that look as they did at the walk before. What was seen of a page lies in the
// word `seen` of its first slice in the arena.
#include "../page/holes.h"
#include "heap_record.h"
#include "hole_walk.h"
#include "huge_cache.h"
#include "trim.h"

static bool is_idle(mx_arena_t* arena, const mx_page_t* page, size_t index, bool* has_changed) {
  const uint32_t now = mx_holes_signature(page);
  if (mx_exchange_relaxed(&arena->seen[index], now) == now) return true;
  *has_changed = true;
  return false;
}

static size_t make_in(mx_arena_t* arena, bool idle_only, bool* has_changed) {
  size_t bytes = 0;
  for (size_t i = 0; i < arena->slices; i++) {
    mx_page_t* const page = mx_page_next_in(arena, &i);
    if (page == NULL) break;
    const uint8_t lend = mx_load_relaxed(&page->lend);
    i--;  // the loop goes on behind the page
    if ((lend & MX_PAGE_RESTS) == 0) continue;
    const size_t index = (size_t)((uint8_t*)page - arena->records) / MX_PAGE_RECORD_STRIDE;
    mx_check(index < arena->slices);
    if (idle_only && !is_idle(arena, page, index, has_changed)) continue;
    bytes += mx_page_make_holes(page, false);
  }
  return bytes;
}

size_t mx_subproc_make_holes(mx_subproc_t* subproc, bool idle_only, bool* has_changed) {
  size_t bytes = 0;
  mx_heap_release_cached(subproc);
  mx_huge_cache_flush(true);
  mx_arenas_t* const arenas = &subproc->arenas;
  for (size_t i = 0; i < mx_load_acquire(&arenas->count); i++) {
    mx_arena_t* const arena = mx_arena_at(arenas, i);
    if (arena != NULL && !arena->is_pinned) bytes += make_in(arena, idle_only, has_changed);
  }
  return bytes;
}
