// SPDX-License-Identifier: MIT
// Where fresh pages lie in hardened builds: at random places of an arena, apart from each other.
//
// What lies between is nobody's: it is not mapped, so that a write that misses its block by more
// than its page most likely faults. Each group of MX_SCATTER_GROUP slices has one place where a
// page begins, which the arena's key tells: so the records of such pages lie side by side (see
// mx_arena_record), where all others would be an OS page each. The groups of a window serve, which
// grows with what is in use, since each group costs page tables.
//
// Each such page is a mapping of its own, of which a process may have 65,530 by default. Beyond
// SCATTER_MOST slices in use pages lie as close as they do in other builds.
#include "arena.h"

#define SCATTER_LEAST ((size_t)64)
#define SCATTER_MOST ((intptr_t)16384)
#define SCATTER_TRIES 24

// Whether a run of slices and those around it are nobody's.
static bool is_apart(const mx_arena_t* arena, size_t i, size_t count) {
  mx_check(count > 0 && i < arena->slices);
  if (i == 0 || i + count >= mx_load_relaxed(&arena->usable)) return false;
  return mx_bits_count(arena->free, i - 1, count + 2) == count + 2 &&
         mx_bits_count(arena->committed, i - 1, count + 2) == 0;
}

// The place of one of the groups of a window; SIZE_MAX when there is none at hand.
static size_t try_groups(const mx_arena_t* arena, size_t home, size_t window, size_t room) {
  const size_t groups = arena->slices / MX_SCATTER_GROUP;
  const size_t step = mx_div_up(room + MX_SCATTER_GROUP - MX_MEDIUM_PAGE_SLICES, MX_SCATTER_GROUP);
  if (groups < step || arena->records_key == 0) return SIZE_MAX;
  window = mx_min(window, groups / step);
  mx_check(window > 0);
  uint64_t random = mx_random64();
  for (unsigned tries = 0; tries < SCATTER_TRIES; tries++) {
    const size_t draw = (size_t)(mx_random_step(&random) >> 20) % window;
    const size_t group = (home / MX_SCATTER_GROUP + draw * step) % groups;
    const size_t i = group * MX_SCATTER_GROUP + mx_arena_group_place(arena, group);
    if (is_apart(arena, i, room)) return i;
  }
  return SIZE_MAX;
}

// Any place of an arena of whose groups most are in use: twice as large as a page that grows may
// become, which begins somewhere in its first half.
static size_t try_places(const mx_arena_t* arena, size_t room) {
  const size_t place = (room == 1 ? 1 : 2 * room);
  const size_t usable = mx_load_relaxed(&arena->usable);
  if (usable < place) return SIZE_MAX;
  uint64_t random = mx_random64();
  for (unsigned tries = 0; tries < SCATTER_TRIES; tries++) {
    const uint64_t draw = mx_random_step(&random) >> 20;
    const size_t i = (size_t)(draw % (usable / place)) * place;
    if (is_apart(arena, i, place)) return i + (size_t)(draw >> 24) % room;
  }
  return SIZE_MAX;
}

bool mx_scatter_is_over(const mx_arenas_t* arenas) {
  return mx_load_relaxed(&arenas->in_use) >= SCATTER_MOST;
}

bool mx_scatter_serves(const mx_arenas_t* arenas, const mx_arena_t* arena,
                       const mx_slices_request_t* r) {
  if (!MX_SCATTER || arena->is_reserved || r->align > 1) return false;
  return !mx_scatter_is_over(arenas);
}

size_t mx_scatter_find(const mx_arenas_t* arenas, const mx_arena_t* arena,
                       const mx_slices_request_t* r, size_t home) {
  mx_check(r->count > 0 && r->count <= r->room);
  if (!mx_scatter_serves(arenas, arena, r)) return SIZE_MAX;
  const intptr_t in_use = mx_max(mx_load_relaxed(&arenas->in_use), (intptr_t)0);
  const size_t window = mx_max(2 * (size_t)in_use, SCATTER_LEAST);
  const size_t i = try_groups(arena, home, window, r->room);
  return i != SIZE_MAX ? i : try_places(arena, r->room);
}
