// SPDX-License-Identifier: MIT
// Owns the reuse of OS pages at other addresses: a long fresh run, which would fault its pages in
// one by one, gets those of free slices elsewhere that wait to be purged. To move the page tables
// of 1 MiB takes 8 us, to fault that much in 460 us, and what waits becomes less.
//
// Page tables move in grains, aligned in addresses, since the OS may split a mapping with each move
// and can later move only what lies in one. A process may have 65,530 mappings by default, so only
// the first arenas take part. A grain that waits is claimed like an allocation, as by a purger.
#include "../base/facts.h"
#include "../base/options.h"
#include "../os/os.h"
#include "arena.h"

#define GRAIN ((size_t)16)  // slices
#define ARENAS_MAX ((size_t)16)

static bool takes_part(const mx_arena_t* arena) {
  return arena != NULL && arena->mapping != NULL && !arena->is_pinned && arena->commit_fn == NULL;
}

// The first grain of an arena at or behind a slice.
static size_t grain_from(const mx_arena_t* arena, size_t index) {
  const size_t offset = (uintptr_t)arena->start / MX_SLICE_SIZE;
  return mx_align_up(offset + index, GRAIN) - offset;
}

static size_t present(const mx_arena_t* arena, size_t grain) {
  const size_t per_slice = mx_arena_bits_per_slice();
  return mx_bits_count(arena->present, grain * per_slice, GRAIN * per_slice);
}

// The highest grain below *end that waits as a whole; like purging it leaves the lowest, which are
// handed out first. SIZE_MAX when there is none. *end moves down to what was looked at.
static size_t find_waiting(const mx_arena_t* arena, size_t* end) {
  while (*end >= GRAIN) {
    const size_t word = (*end - 1) / MX_WORD_BITS;
    if (mx_load_relaxed(&arena->waiting[word]) == 0) {
      *end = word * MX_WORD_BITS;
      continue;
    }
    const size_t grain = grain_from(arena, *end - GRAIN + 1) - GRAIN;
    if (grain > *end) break;  // below the first one
    *end = grain + GRAIN - 1;
    if (mx_bits_count(arena->waiting, grain, GRAIN) == GRAIN &&
        present(arena, grain) > GRAIN * mx_arena_bits_per_slice() / 2) {
      return grain;
    }
  }
  *end = 0;
  return SIZE_MAX;
}

// Moves a grain that waits to `to`, which is the caller's and fresh. False: it is in use again, or
// the OS refuses.
static bool move_grain(mx_arenas_t* arenas, mx_arena_t* from, size_t grain, uint8_t* to) {
  if (!mx_bits_try_claim(from->free, grain, GRAIN)) return false;
  const size_t waited = mx_bits_clear(from->waiting, grain, GRAIN);
  uint8_t* const start = from->start + grain * MX_SLICE_SIZE;
  const bool has_guard = (MX_GUARD_PAGES && !mx_arena_guard(from, grain, GRAIN, false));
  const bool moved = (!has_guard && mx_os_move(start, to, GRAIN * MX_SLICE_SIZE));
  if (moved) {
    mx_bits_clear(from->dirty, grain, GRAIN);
    mx_arena_untouch(from, start, GRAIN * MX_SLICE_SIZE);
    mx_add_relaxed(&arenas->waiting, -(intptr_t)waited);
  } else {
    mx_bits_set(from->waiting, grain, GRAIN);
    mx_add_relaxed(&arenas->waiting, (intptr_t)(GRAIN - waited));
  }
  mx_bits_set(from->free, grain, GRAIN);
  return moved;
}

void mx_arena_refill(mx_arenas_t* arenas, mx_arena_t* arena, void* start, size_t size) {
  const size_t index = mx_div_up((size_t)((uint8_t*)start - arena->start), MX_SLICE_SIZE);
  const size_t end = (size_t)((uint8_t*)start + size - arena->start) / MX_SLICE_SIZE;
  if (!takes_part(arena) || !mx_os_overcommits() || mx_option(allow_thp) >= 2) return;
  size_t source = mx_min(mx_load_acquire(&arenas->count), ARENAS_MAX);
  mx_arena_t* from = NULL;
  size_t below = 0;
  for (size_t to = grain_from(arena, index); to + GRAIN <= end; to += GRAIN) {
    if (mx_load_relaxed(&arenas->waiting) < (intptr_t)GRAIN) return;
    if (present(arena, to) > 0) continue;
    for (bool done = false; !done;) {
      size_t grain = (from == NULL ? SIZE_MAX : find_waiting(from, &below));
      if (grain != SIZE_MAX) {
        done = move_grain(arenas, from, grain, arena->start + to * MX_SLICE_SIZE);
        continue;
      }
      do {
        if (source == 0) return;
        from = mx_arena_at(arenas, --source);
      } while (!takes_part(from) || from->numa_node != arena->numa_node);
      below = from->slices;
    }
    mx_arena_touch(arena, arena->start + to * MX_SLICE_SIZE, GRAIN * MX_SLICE_SIZE);
  }
}
