// SPDX-License-Identifier: MIT
// The return of free slices with their addresses, where the OS refused memory or counts all that is
// mapped.
#include "../mem/vmem.h"
#include "../os/thread.h"
#include "arena.h"

// What is unmapped is not committed before, for a fork in between.
static bool unmap_run(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count) {
  mx_check(!arena->is_reserved && count > 0 && index + count <= arena->slices);
  if (!mx_arena_claim_mapped(arena, index, count)) return false;
  uint8_t* const start = mx_arena_slice(arena, index);
  mx_check(mx_bits_count(arena->free, index, count) == 0);
  if (MX_GUARD_PAGES) mx_arena_guard(arena, index, count, false);
  mx_bits_clear(arena->committed, index, count);
  const bool done = mx_vmem_unmap(start, count * MX_SLICE_SIZE, 0);
  if (done) {
    const size_t waited = mx_bits_clear(arena->purgeable, index, count);
    mx_arena_count_purgeable(arenas, arena, -(intptr_t)waited);
    mx_bits_clear(arena->dirty, index, count);
    mx_arena_untouch(arena, start, count * MX_SLICE_SIZE);
  } else {
    mx_bits_set(arena->committed, index, count);
  }
  mx_arena_put_back(arena, index, count);
  return done;
}

bool mx_arena_unmap_free(mx_arenas_t* arenas, mx_arena_t* arena) {
  bool done = false;
  if (arena->is_reserved) return false;
  for (size_t i = 0, count;; i += count) {
    i = mx_bits_find_run(arena->free, arena->committed, arena->slices, 1, i, 1, 0);
    if (i == SIZE_MAX) return done;
    for (count = 1; i + count < arena->slices; count++) {
      const size_t next = i + count;
      if (!mx_bits_test(arena->free, next) || !mx_bits_test(arena->committed, next)) break;
    }
    if (unmap_run(arenas, arena, i, count)) done = true;
  }
}

bool mx_arenas_unmap_free(mx_arenas_t* arenas) {
  bool done = false;
  mx_call_enter();
  for (size_t i = mx_load_acquire(&arenas->count); i-- > 0;) {
    mx_arena_t* const arena = mx_arena_at(arenas, i);
    if (arena != NULL && mx_arena_unmap_free(arenas, arena)) done = true;
  }
  mx_call_leave();
  return done;
}
