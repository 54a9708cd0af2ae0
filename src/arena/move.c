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

// A search for chunks, from the last arena to the first, and down in each.
typedef struct search_s {
  mx_arenas_t* arenas;
  mx_arena_t* to;      // which the run is of
  bool is_large;       // of large OS pages only
  size_t unit;         // slices of a chunk
  size_t looks;        // that may still be made
  mx_arena_t* from;    // where it has come to, NULL before the first
  size_t next, below;  // the arenas, and the slices of `from`, in front of these are left
} search_t;

static bool takes_part(const mx_arena_t* arena) {
  return arena != NULL && !arena->is_reserved && !mx_arena_has_plots(arena);
}

// The first chunk of an arena at or behind a slice, which may be its end.
static size_t chunk_from(const mx_arena_t* arena, size_t index, size_t unit) {
  mx_check((unit & (unit - 1)) == 0 && index <= arena->slices);
  const size_t offset = (uintptr_t)arena->start / MX_SLICE_SIZE;
  return mx_align_up(offset + index, unit) - offset;
}

static bool may_move(const search_t* s, size_t chunk) {
  const mx_arena_t* const from = s->from;
  const size_t unit = s->unit;
  return chunk + unit <= from->slices && mx_bits_count(from->purgeable, chunk, unit) == unit &&
         mx_arena_is_there(from, chunk, unit) &&
         (!s->is_large || mx_bits_count(from->large, chunk, unit) == unit);
}

// The highest chunk of what is left of the arena that waits as a whole; like purging it leaves the
// lowest, which are handed out first. SIZE_MAX when there is none.
static size_t find_purgeable(search_t* s) {
  for (size_t last; (last = mx_bits_find_last(s->from->purgeable, s->below)) != SIZE_MAX;) {
    const size_t next = chunk_from(s->from, last + 1, s->unit);
    if (next < s->unit) break;  // in front of the first one
    s->below = next - s->unit;
    if (may_move(s, s->below)) return s->below;
  }
  s->below = 0;
  return SIZE_MAX;
}

typedef enum move_e { MOVE_DONE, MOVE_REFUSED, MOVE_TORN } move_t;

// Moves a chunk that waits to slices that are the caller's and fresh. Refused: it is in use again,
// or cannot be moved.
static move_t move_chunk(const search_t* s, size_t chunk, size_t index) {
  mx_arena_t *const from = s->from, *const to = s->to;
  const size_t unit = s->unit, size = unit * MX_SLICE_SIZE;
  mx_check(chunk + unit <= from->slices && index + unit <= to->slices);
  mx_check(mx_bits_count(to->free, index, unit) == 0);
  if (!mx_arena_claim_mapped(from, chunk, unit)) return MOVE_REFUSED;
  const size_t waited = mx_bits_clear(from->purgeable, chunk, unit);
  uint8_t* const start = mx_arena_slice(from, chunk);
  const bool has_guard = (MX_GUARD_PAGES && !mx_arena_guard(from, chunk, unit, false));
  bool is_torn = false;
  const bool moved = (!has_guard && mx_vmem_move(start, mx_arena_slice(to, index), size, &is_torn));
  if (moved) {
    mx_bits_clear(from->committed, chunk, unit);
    mx_bits_clear(from->dirty, chunk, unit);
    // The mapping moved with what it was advised.
    mx_bits_clear(to->large, index, unit);
    if (mx_bits_clear(from->large, chunk, unit) > 0) mx_bits_set(to->large, index, unit);
    mx_arena_untouch(from, start, size);
    mx_arena_count_purgeable(s->arenas, from, -(intptr_t)waited);
  } else {
    mx_bits_set(from->purgeable, chunk, unit);
    mx_arena_count_purgeable(s->arenas, from, (intptr_t)(unit - waited));
  }
  mx_arena_put_back(from, chunk, unit);
  if (is_torn) mx_bits_clear(to->committed, index, unit);
  return moved ? MOVE_DONE : is_torn ? MOVE_TORN : MOVE_REFUSED;
}

static bool next_arena(search_t* s) {
  while (s->next > 0) {
    s->from = mx_arena_at(s->arenas, --s->next);
    if (!takes_part(s->from) || s->from->numa_node != s->to->numa_node) continue;
    s->below = s->from->slices;
    return true;
  }
  return false;
}

// To move what is hardly present takes longer than the faults that it spares. A search looks at the
// first chunks, until one holds more; what lies together was mostly used alike.
static bool is_sparse_chunk(search_t* s, size_t chunk) {
  if (s->looks == 0) return false;
  const uint8_t* const start = mx_arena_slice(s->from, chunk);
  const bool is_sparse = mx_os_is_sparse(start, s->unit * MX_SLICE_SIZE, 1);
  s->looks = (is_sparse ? s->looks - 1 : 0);
  return is_sparse;
}

// SIZE_MAX when there is none, or in each that was looked at is little.
static size_t find_chunk(search_t* s) {
  for (;;) {
    const size_t chunk = (s->from == NULL ? SIZE_MAX : find_purgeable(s));
    if (chunk != SIZE_MAX && !is_sparse_chunk(s, chunk)) return chunk;
    if (chunk == SIZE_MAX ? !next_arena(s) : s->looks == 0) return SIZE_MAX;
  }
}

// False: a part of the run is lost.
static bool move_in(search_t* s, size_t index, size_t count) {
  mx_check(mx_bits_count(s->to->free, index, count) == 0);
  const size_t unit = s->unit;
  for (size_t to = chunk_from(s->to, index, unit); to + unit <= index + count; to += unit) {
    if (mx_load_relaxed(&s->arenas->purgeable) < (intptr_t)unit) return true;
    if (mx_arena_has_present(s->to, to, unit)) continue;
    move_t result = MOVE_REFUSED;
    while (result == MOVE_REFUSED) {
      const size_t chunk = find_chunk(s);
      if (chunk == SIZE_MAX) return true;
      result = move_chunk(s, chunk, to);
    }
    if (result == MOVE_TORN) return false;
    mx_arena_touch(s->to, mx_arena_slice(s->to, to), unit * MX_SLICE_SIZE);
  }
  return true;
}

// Where a filter entered meanwhile ends the process for asking whether there is one, a program with
// little memory and no block of several large OS pages is not to notice.
static size_t looks_for(intptr_t all, size_t count) {
  return count >= LOOK_LEAST || all >= (intptr_t)LOOK_IN_ALL ? SPARSE_LOOKS : 0;
}

bool mx_slices_move_in(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count) {
  mx_check(arena == NULL || index + count <= arena->slices);
  if (!takes_part(arena) || !mx_os_overcommits() || mx_option(allow_thp) >= 2) return true;
  const intptr_t in_use = mx_load_relaxed(&arenas->in_use);
  const intptr_t all = in_use + mx_load_relaxed(&arenas->purgeable);
  size_t unit = CHUNK_LEAST;
  while ((intptr_t)unit < in_use / CHUNKS_MOST) unit *= 2;
  const size_t large = mx_facts.large_page / MX_SLICE_SIZE, looks = looks_for(all, count);
  const size_t last = mx_min(mx_load_acquire(&arenas->count), ARENAS_MAX);
  for (bool is_large = (large > CHUNK_LEAST);; is_large = false) {
    const size_t slices = (is_large ? mx_max(large, unit) : unit);
    search_t s = {arenas, arena, is_large, slices, looks, NULL, last, 0};
    if (!move_in(&s, index, count)) return false;
    if (!is_large) return true;
  }
}
