// SPDX-License-Identifier: MIT
// Runs of free slices: their claim, and their return.
#include "arena.h"

// What is free is set before `lacks` is read; a search that found nothing sets `lacks` before it
// looks once more. So one of them sees the other's.
static void has_more(mx_arena_t* arena) {
  mx_fence_seq_cst();
  if (mx_load_relaxed(&arena->lacks) != SIZE_MAX) mx_store_relaxed(&arena->lacks, SIZE_MAX);
}

bool mx_arena_claim(mx_arena_t* arena, size_t index, size_t count) {
  if (mx_bits_try_claim(arena->free, index, count)) return true;
  // Searches may have missed the part that was claimed for a moment.
  has_more(arena);
  return false;
}

bool mx_arena_claim_mapped(mx_arena_t* arena, size_t index, size_t count) {
  if (!mx_arena_claim(arena, index, count)) return false;
  if (mx_bits_count(arena->committed, index, count) == count) return true;
  mx_arena_put_back(arena, index, count);
  return false;
}

void mx_arena_put_back(mx_arena_t* arena, size_t index, size_t count) {
  mx_check(count > 0 && index + count <= arena->slices);
  mx_check(mx_bits_count(arena->free, index, count) == 0);
  mx_bits_set(arena->free, index, count);
  has_more(arena);
  size_t low = mx_load_relaxed(&arena->low_hint);
  while (index < low && !mx_cas_weak_acq_rel(&arena->low_hint, &low, index)) {}
}
