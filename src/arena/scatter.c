// SPDX-License-Identifier: MIT
// Where fresh pages lie in hardened builds: at random places of an arena, apart from each other.
//
// What lies between is nobody's: it is not mapped, so that a write that misses its block by more
// than its page most likely faults. The places of a window are taken, which grows with what is in
// use, since each slice of it costs records and page tables: a page for each SCATTER_SHARE slices.
// Pages that grow have a place of twice the size that they may have, and begin somewhere in its
// first half.
//
// Each such page is a mapping of its own, of which a process may have 65,530 by default. Beyond
// SCATTER_MOST slices in use pages lie as close as they do in other builds.
#include "../mem/random.h"
#include "arena.h"

#define SCATTER_SHARE ((size_t)8)
#define SCATTER_LEAST ((size_t)512)
#define SCATTER_MOST ((intptr_t)16384)
#define SCATTER_TRIES 24

// One of the places of a window, all of which is free; SIZE_MAX when there is none at hand.
static size_t try_places(const mx_arena_t* arena, size_t from, size_t window, size_t room) {
  const size_t place = (room == 1 ? 1 : 2 * room);
  const size_t usable = mx_load_relaxed(&arena->usable);
  window = mx_align_down(mx_min(window, usable), place);
  if (window < place + 2) return SIZE_MAX;
  from = mx_min(from, usable - window);
  uint64_t random = mx_random64();
  for (unsigned tries = 0; tries < SCATTER_TRIES; tries++) {
    const uint64_t draw = mx_random_step(&random) >> 20;
    size_t i = from + (size_t)(draw % (window / place)) * place;
    if (i == 0 || i + place >= usable) continue;
    const bool is_free = (mx_bits_count(arena->free, i - 1, place + 2) == place + 2);
    if (!is_free || mx_bits_count(arena->committed, i - 1, place + 2) != 0) continue;
    if (room > 1) i += (size_t)(draw >> 24) % room;
    return i;
  }
  return SIZE_MAX;
}

bool mx_scatter_is_over(const mx_arenas_t* arenas) {
  return mx_load_relaxed(&arenas->in_use) >= SCATTER_MOST;
}

size_t mx_scatter_find(const mx_arenas_t* arenas, const mx_arena_t* arena,
                       const mx_slices_request_t* r, size_t home) {
  mx_check(r->count > 0 && r->count <= r->room);
  if (arena->is_reserved || arena->commit_fn != NULL || r->align > 1) return SIZE_MAX;
  const intptr_t in_use = mx_max(mx_load_relaxed(&arenas->in_use), (intptr_t)0);
  if (in_use >= SCATTER_MOST) return SIZE_MAX;
  const size_t wanted = mx_max(mx_max(SCATTER_SHARE * (size_t)in_use, SCATTER_LEAST), 16 * r->room);
  const size_t i = try_places(arena, home, wanted, r->room);
  return i != SIZE_MAX ? i : try_places(arena, 0, arena->slices, r->room);
}
