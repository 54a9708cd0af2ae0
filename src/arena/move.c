// SPDX-License-Identifier: MIT
// The reuse of OS pages at other addresses: a long fresh run, which would fault its pages in
// one by one, gets those of free slices elsewhere that wait to be purged. To move the page tables
// of 1 MiB takes 8 us, to fault that much in 460 us, and what waits becomes less.
//
// Page tables move in chunks, aligned in addresses, since each move makes a mapping of its own and
// only what lies in one can move again. Large OS pages move as such first (see heap/dense.c); what
// is too short for one gets chunks of those that are left. A process may have 65,530 mappings by
// default, so chunks are the larger the more is in use, and only the first arenas take part. A
// chunk that waits is claimed like an allocation, as by a purger; nothing is committed afterwards
// where it was.
#include "../base/facts.h"
#include "../base/options.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "arena.h"

#define CHUNK_LEAST ((size_t)16)  // slices
#define CHUNKS_MOST 16384         // that all in use is
#define ARENAS_MAX ((size_t)16)
#define SPARSE_LOOKS ((size_t)3)  // so many chunks in which little is present end a search
// Slices of the run, or of all that is in use or waits, for a search to look.
#define LOOK_LEAST (4 * MX_MIB / MX_SLICE_SIZE)
#define LOOK_IN_ALL (64 * MX_MIB / MX_SLICE_SIZE)

static bool takes_part(const mx_arena_t* arena) {
  return arena != NULL && !arena->is_reserved && !mx_arena_has_plots(arena);
}

// The first chunk of an arena at or behind a slice, which may be its end.
static size_t chunk_from(const mx_arena_t* arena, size_t index, size_t unit) {
  mx_check((unit & (unit - 1)) == 0 && index <= arena->slices);
  const size_t offset = (uintptr_t)arena->start / MX_SLICE_SIZE;
  return mx_align_up(offset + index, unit) - offset;
}

static bool may_move(const mx_arena_t* arena, size_t chunk, size_t unit, bool is_large) {
  return chunk + unit <= arena->slices && mx_bits_count(arena->purgeable, chunk, unit) == unit &&
         mx_arena_is_there(arena, chunk, unit) &&
         (!is_large || mx_bits_count(arena->large, chunk, unit) == unit);
}

// The highest chunk below *end that waits as a whole; like purging it leaves the lowest, which are
// handed out first. SIZE_MAX when there is none. *end moves down to what was looked at.
static size_t find_purgeable(const mx_arena_t* arena, size_t* end, size_t unit, bool is_large) {
  for (size_t last; (last = mx_bits_find_last(arena->purgeable, *end)) != SIZE_MAX;) {
    const size_t next = chunk_from(arena, last + 1, unit);
    if (next < unit) break;  // in front of the first one
    *end = next - unit;
    if (may_move(arena, *end, unit, is_large)) return *end;
  }
  *end = 0;
  return SIZE_MAX;
}

typedef enum move_e { MOVE_DONE, MOVE_REFUSED, MOVE_TORN } move_t;

// Moves a chunk that waits to slices that are the caller's and fresh. Refused: it is in use again,
// or cannot be moved.
static move_t move_chunk(mx_arenas_t* arenas, mx_arena_t* from, size_t chunk, mx_arena_t* to,
                         size_t index, size_t unit) {
  mx_check(chunk + unit <= from->slices && index + unit <= to->slices);
  mx_check(mx_bits_count(to->free, index, unit) == 0);
  if (!mx_arena_claim_mapped(from, chunk, unit)) return MOVE_REFUSED;
  const size_t waited = mx_bits_clear(from->purgeable, chunk, unit);
  uint8_t* const start = mx_arena_slice(from, chunk);
  const bool has_guard = (MX_GUARD_PAGES && !mx_arena_guard(from, chunk, unit, false));
  bool is_torn = false;
  const bool moved = (!has_guard && mx_vmem_move(start, mx_arena_slice(to, index),
                                                 unit * MX_SLICE_SIZE, &is_torn));
  if (moved) {
    mx_bits_clear(from->committed, chunk, unit);
    mx_bits_clear(from->dirty, chunk, unit);
    // The mapping moved with what it was advised.
    mx_bits_clear(to->large, index, unit);
    if (mx_bits_clear(from->large, chunk, unit) > 0) mx_bits_set(to->large, index, unit);
    mx_arena_untouch(from, start, unit * MX_SLICE_SIZE);
    mx_arena_count_purgeable(arenas, from, -(intptr_t)waited);
  } else {
    mx_bits_set(from->purgeable, chunk, unit);
    mx_arena_count_purgeable(arenas, from, (intptr_t)(unit - waited));
  }
  mx_arena_put_back(from, chunk, unit);
  if (is_torn) mx_bits_clear(to->committed, index, unit);
  return moved ? MOVE_DONE : is_torn ? MOVE_TORN : MOVE_REFUSED;
}

// Where a search for chunks has come to: from the last arena to the first, and down in each.
typedef struct search_s {
  mx_arenas_t* arenas;
  mx_arena_t* from;  // NULL before the first
  size_t next;       // the arenas in front of this one are left
  size_t below;      // so are the slices of `from` in front of this one
  size_t looks;      // that may still be made
} search_t;

static bool next_arena(search_t* s, int numa_node) {
  while (s->next > 0) {
    s->from = mx_arena_at(s->arenas, --s->next);
    if (!takes_part(s->from) || s->from->numa_node != numa_node) continue;
    s->below = s->from->slices;
    return true;
  }
  return false;
}

// To move what is hardly present takes longer than the faults that it spares. A search looks at the
// first chunks, until one holds more; what lies together was mostly used alike.
static bool is_sparse_chunk(search_t* s, size_t chunk, size_t unit) {
  if (s->looks == 0) return false;
  s->looks--;
  const uint8_t* const start = mx_arena_slice(s->from, chunk);
  const bool is_sparse = mx_os_is_sparse(start, unit * MX_SLICE_SIZE, 1);
  if (!is_sparse) s->looks = 0;
  return is_sparse;
}

// SIZE_MAX when there is none, or in each that was looked at is little.
static size_t find_chunk(search_t* s, size_t unit, bool is_large, int numa_node) {
  for (;;) {
    const size_t chunk =
        (s->from == NULL ? SIZE_MAX : find_purgeable(s->from, &s->below, unit, is_large));
    if (chunk == SIZE_MAX) {
      if (!next_arena(s, numa_node)) return SIZE_MAX;
    } else if (!is_sparse_chunk(s, chunk, unit)) {
      return chunk;
    } else if (s->looks == 0) {
      return SIZE_MAX;
    }
  }
}

// By chunks of `unit` slices, of large OS pages only if is_large. False: a part of the run is lost.
static bool move_in(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count,
                    size_t unit, size_t looks, bool is_large) {
  mx_check(mx_bits_count(arena->free, index, count) == 0);
  const size_t last = mx_min(mx_load_acquire(&arenas->count), ARENAS_MAX);
  search_t search = {arenas, NULL, last, 0, looks};
  for (size_t to = chunk_from(arena, index, unit); to + unit <= index + count; to += unit) {
    if (mx_load_relaxed(&arenas->purgeable) < (intptr_t)unit) return true;
    if (mx_arena_has_present(arena, to, unit)) continue;
    move_t result = MOVE_REFUSED;
    while (result == MOVE_REFUSED) {
      const size_t chunk = find_chunk(&search, unit, is_large, arena->numa_node);
      if (chunk == SIZE_MAX) return true;
      result = move_chunk(arenas, search.from, chunk, arena, to, unit);
    }
    if (result == MOVE_TORN) return false;
    mx_arena_touch(arena, mx_arena_slice(arena, to), unit * MX_SLICE_SIZE);
  }
  return true;
}

// Where a filter entered meanwhile ends the process for asking whether there is one, a program with
// little memory and no block of several large OS pages is not to notice.
static size_t looks_for(const mx_arenas_t* arenas, size_t count) {
  const intptr_t all = mx_load_relaxed(&arenas->in_use) + mx_load_relaxed(&arenas->purgeable);
  return count >= LOOK_LEAST || all >= (intptr_t)LOOK_IN_ALL ? SPARSE_LOOKS : 0;
}

bool mx_slices_move_in(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count) {
  mx_check(arena == NULL || index + count <= arena->slices);
  if (!takes_part(arena) || !mx_os_overcommits() || mx_option(allow_thp) >= 2) return true;
  const intptr_t in_use = mx_load_relaxed(&arenas->in_use);
  size_t unit = CHUNK_LEAST;
  while ((intptr_t)unit < in_use / CHUNKS_MOST) unit *= 2;
  const size_t large = mx_facts.large_page / MX_SLICE_SIZE, looks = looks_for(arenas, count);
  return (large <= CHUNK_LEAST ||
          move_in(arenas, arena, index, count, mx_max(large, unit), looks, true)) &&
         move_in(arenas, arena, index, count, unit, looks, false);
}
