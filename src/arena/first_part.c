// SPDX-License-Identifier: MIT
// What is mapped of a fresh page whose slices are mapped in part.
#include "../base/facts.h"
#include "arena.h"

#define FIRST_PART_TRIES 4

static mx_commit_t map_first(mx_arenas_t* arenas, const mx_slices_t* run, size_t size) {
  mx_check(mx_bits_count(run->arena->free, run->index, run->count) == 0);
  size = mx_min(mx_max(size, mx_facts.os_page), run->count * MX_SLICE_SIZE);
  mx_commit_t result = mx_arena_map_parts(run->arena, run->start, size);
  if (result == MX_COMMIT_REFUSED && mx_arenas_unmap_free(arenas)) {
    result = mx_arena_map_parts(run->arena, run->start, size);
  }
  if (result == MX_COMMIT_DONE) mx_arena_touch(run->arena, run->start, size);
  return result;
}

mx_cold bool mx_slices_map_first(mx_arenas_t* arenas, const mx_slices_request_t* request,
                                 size_t size, mx_slices_t* run) {
  for (unsigned tries = 0; tries < FIRST_PART_TRIES; tries++) {
    const mx_commit_t result = map_first(arenas, run, size);
    if (result == MX_COMMIT_DONE) return true;
    if (result == MX_COMMIT_TAKEN) mx_arena_end_at(run->arena, run->index);
    mx_slices_free(arenas, run->arena, run->index, run->count);
    if (result != MX_COMMIT_TAKEN || !mx_slices_alloc(arenas, request, run)) return false;
  }
  mx_slices_free(arenas, run->arena, run->index, run->count);
  return false;
}
