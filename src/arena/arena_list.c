// SPDX-License-Identifier: MIT
// The ends of a sub-process' arenas: passed on to another one, or unmapped.
#include "../mem/vmem.h"
#include "../os/track.h"
#include "arena.h"

void mx_arenas_hand_over(mx_arenas_t* from, mx_arenas_t* to) {
  const size_t count = mx_exchange_acq_rel(&from->count, (size_t)0);
  mx_lock_acquire(&to->lock);
  size_t n = mx_load_relaxed(&to->count);
  for (size_t i = 0; i < count; i++) {
    // Beyond the last place arenas stay what they are to their blocks, but serve no new ones.
    if (n < MX_ARENAS_MAX) mx_store_release(&to->items[n++], mx_arena_at(from, i));
    mx_store_relaxed(&from->items[i], (mx_arena_t*)NULL);
  }
  mx_store_release(&to->count, n);
  mx_lock_release(&to->lock);
  mx_add_relaxed(&to->in_use, mx_exchange_relaxed(&from->in_use, (intptr_t)0));
  mx_add_relaxed(&to->purgeable, mx_exchange_relaxed(&from->purgeable, (intptr_t)0));
  uint64_t none = 0;
  mx_cas_strong_acq_rel(&to->purge_at, &none, mx_exchange_relaxed(&from->purge_at, (uint64_t)0));
}

void mx_arenas_destroy(mx_arenas_t* arenas) {
  const size_t count = mx_exchange_acq_rel(&arenas->count, (size_t)0);
  mx_store_relaxed(&arenas->purge_at, (uint64_t)0);
  mx_store_relaxed(&arenas->purgeable, (intptr_t)0);
  mx_store_relaxed(&arenas->in_use, (intptr_t)0);
  for (size_t i = 0; i < count; i++) {
    mx_arena_t* arena = mx_arena_at(arenas, i);
    mx_store_relaxed(&arenas->items[i], (mx_arena_t*)NULL);
    if (arena == NULL) continue;
    mx_arena_untouch(arena, arena->start, arena->slices * MX_SLICE_SIZE);
    mx_pagemap_set(arena->start, arena->slices, NULL);
    mx_track_open(arena->start, arena->slices * MX_SLICE_SIZE);
    // What is the user's again is as it was.
    if (MX_GUARD_PAGES && arena->mapping == NULL) mx_arena_guard(arena, 0, arena->slices, false);
    mx_arena_unmap(arena);
    mx_vmem_unmap_meta(arena, arena->meta_size);
  }
}
