// SPDX-License-Identifier: MIT
// Owns the allocation of slices: lowest address first, and used (dirty) slices before fresh ones,
// because a fresh OS page costs a fault and resident memory.
#include "../base/facts.h"
#include "../base/options.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "arena.h"
#include "huge_pages.h"

// Runs of at most this many slices are looked for among dirty slices first.
#define DIRTY_FIRST_MAX 64
#define DIRTY_START_TRIES 16

#define PURGE_WAIT_MSECS 1000  // for slices that somebody purges

static uint8_t* slice_start(const mx_arena_t* arena, size_t index) {
  return arena->start + index * MX_SLICE_SIZE;
}

// The OS commits many slices at a time, of which those that are never used cost nothing.
#define COMMIT_SLICES ((size_t)1024)

static bool commit_piece(mx_arena_t* arena, size_t index, size_t count, bool* is_zero) {
  void* start = slice_start(arena, index);
  const size_t size = count * MX_SLICE_SIZE;
  bool zeroed = false;
  const bool ok = (arena->commit_fn != NULL
                       ? arena->commit_fn(true, start, size, &zeroed, arena->commit_arg)
                       : mx_vmem_commit(start, size));
  if (!ok) return false;
  if (arena->commit_fn != NULL && !zeroed) *is_zero = false;
  mx_bits_set(arena->committed, index, count);
  return true;
}

// What is committed may have guards, which another commit would take away.
static bool commit_rest(mx_arena_t* arena, size_t index, size_t count, bool* is_zero) {
  for (const size_t end = index + count; index < end; index += count) {
    const bool done = mx_bits_test(arena->committed, index);
    count = 1;
    while (index + count < end && mx_bits_test(arena->committed, index + count) == done) count++;
    if (!done && !commit_piece(arena, index, count, is_zero)) return false;
  }
  return true;
}

static bool commit_range(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count,
                         bool* is_zero) {
  if (mx_bits_count(arena->committed, index, count) == count) return true;
  const bool is_more = (arena->commit_fn == NULL && arena->mapping != NULL && mx_os_overcommits());
  if (is_more) {
    const size_t end = mx_align_up(index + count, COMMIT_SLICES);
    index = mx_align_down(index, COMMIT_SLICES);
    count = mx_min(end, arena->slices) - index;
  }
  if (!MX_GUARD_PAGES) return commit_piece(arena, index, count, is_zero);
  // Others may want the same slices, and have guards in them at once.
  if (is_more) mx_lock_acquire(&arenas->lock);
  const bool ok = commit_rest(arena, index, count, is_zero);
  if (is_more) mx_lock_release(&arenas->lock);
  return ok;
}

// What a run that was just claimed must become before it is handed out.
static bool prepare(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count,
                    bool* is_zero) {
  const size_t dirty = mx_bits_count(arena->dirty, index, count);
  *is_zero = (dirty == 0);
  const size_t waited = mx_bits_clear(arena->waiting, index, count);
  if (waited > 0) mx_add_relaxed(&arenas->waiting, -(intptr_t)waited);
  if (!commit_range(arenas, arena, index, count, is_zero)) {
    mx_bits_set(arena->free, index, count);
    return false;
  }
  // Memory that a commit function did not clear counts as present, as all that is not zero does.
  if (!*is_zero && dirty < count && arena->commit_fn != NULL) {
    mx_arena_touch(arena, slice_start(arena, index), count * MX_SLICE_SIZE);
  }
  // Of a page of blocks only the first slice is sure to be touched soon. Of huge blocks those who
  // make them know what is fresh.
  const bool is_carved =
      (count == 1 || count == MX_MEDIUM_PAGE_SLICES || count == MX_LARGE_PAGE_SLICES);
  if (is_carved && !mx_bits_test(arena->dirty, index)) mx_arenas_note_fresh(arenas, 1);
  mx_add_relaxed(&arena->free_slices, -count);
  mx_add_relaxed(&arenas->in_use, (intptr_t)count);
  return true;
}

// A run that begins with a dirty slice, though others of it may be fresh: pages take their slices
// from the start on, so the first ones are what will be touched. One that is dirty all over, if it
// will not grow and there is such a run.
static size_t find_dirty(const mx_arena_t* arena, const mx_slices_request_t* r, size_t from) {
  const mx_bits_t *free = arena->free, *dirty = arena->dirty;
  const bool grows = (r->dirty_room > r->count);
  // Pages that begin closer to each other would soon grow into each other.
  const size_t align = (grows ? mx_max(r->room / 4, 8) : r->align);
  const size_t offset = (grows ? 0 : (uintptr_t)arena->start / MX_SLICE_SIZE);
  if (!grows) {
    const size_t i = mx_bits_find_run(free, dirty, arena->slices, r->count, from, align, offset);
    if (i != SIZE_MAX || r->count == 1) return i;
  }
  for (unsigned tries = 0; tries < DIRTY_START_TRIES; tries++) {
    const size_t i = mx_bits_find_run(free, dirty, arena->slices, 1, from, align, offset);
    if (i == SIZE_MAX) return SIZE_MAX;
    from = mx_bits_find_run(free, NULL, arena->slices, r->dirty_room, i, align, offset);
    if (from == i || from == SIZE_MAX) return from;
  }
  return SIZE_MAX;
}

// Fresh runs of different lengths begin in different quarters of an arena, so that what is long
// finds room for long. Growing pages begin as far from each other as they may grow.
static size_t home_of(const mx_arena_t* arena, size_t room) {
  if (room == 1) return mx_load_relaxed(&arena->low_hint);
  if (room == MX_MEDIUM_PAGE_SLICES) return arena->slices / 4;
  return room == MX_LARGE_PAGE_SLICES ? arena->slices / 2 : arena->slices / 4 * 3;
}

static size_t find_fresh(const mx_arena_t* arena, const mx_slices_request_t* r, size_t from) {
  const bool grows = (r->room > r->count);
  const size_t align = (grows ? r->room : r->align);
  const size_t offset = (grows ? 0 : (uintptr_t)arena->start / MX_SLICE_SIZE);
  return mx_bits_find_run(arena->free, NULL, arena->slices, r->room, from, align, offset);
}

static bool hand_out(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count,
                     mx_slices_t* out) {
  out->arena = arena;
  out->index = index;
  out->count = count;
  out->start = slice_start(arena, index);
  return prepare(arenas, arena, index, count, &out->is_zero);
}

// Blocks that grow side by side would be in each other's way all the time. So one that cannot grow
// where it is moves to a place far from others, of which there are some at the end of an arena.
#define GROWING_PLACE ((size_t)512)

static bool claim_place(mx_arenas_t* arenas, mx_arena_t* arena, const mx_slices_request_t* r,
                        mx_slices_t* out) {
  const size_t room = mx_max(mx_align_up(2 * r->count, GROWING_PLACE), GROWING_PLACE);
  const size_t offset = (uintptr_t)arena->start / MX_SLICE_SIZE;
  size_t i = mx_align_up(offset + arena->slices / 8 * 7, GROWING_PLACE) - offset;
  for (; i + room <= arena->slices; i += GROWING_PLACE) {
    if (mx_bits_count(arena->free, i, room) == room &&
        mx_bits_try_claim(arena->free, i, r->count)) {
      return hand_out(arenas, arena, i, r->count, out);
    }
  }
  return false;
}

static bool claim_in(mx_arenas_t* arenas, mx_arena_t* arena, const mx_slices_request_t* r,
                     bool dirty, mx_slices_t* out) {
  size_t from = (dirty ? mx_load_relaxed(&arena->low_hint) : home_of(arena, r->room));
  for (;;) {
    const size_t i = (dirty ? find_dirty(arena, r, from) : find_fresh(arena, r, from));
    if (i == SIZE_MAX) {
      if (from == 0) return false;
      from = 0;  // the hint may have been too high
      if (r->room == 1) mx_store_relaxed(&arena->low_hint, (size_t)0);
      continue;
    }
    if (!mx_bits_try_claim(arena->free, i, r->count)) {
      mx_counter_add(&mx_process_counters.arena_rollback_count, 1);
      from = i;
      continue;
    }
    if (r->room == 1 && !dirty) mx_store_relaxed(&arena->low_hint, i);
    return hand_out(arenas, arena, i, r->count, out);
  }
}

// How much the node of a request says: it must be the arena's; that of an arena of any node will do
// as well; nothing.
typedef enum node_match_e { NODE_EXACT, NODE_OR_ANY, NODE_IGNORED } node_match_t;

static bool suits(const mx_arena_t* arena, const mx_slices_request_t* r, node_match_t match) {
  if (arena == NULL || mx_load_relaxed(&arena->free_slices) < r->count) return false;
  if (r->arena != NULL ? arena != r->arena : arena->is_exclusive) return false;
  if (r->numa_node < 0 || match == NODE_IGNORED || arena->numa_node == r->numa_node) return true;
  return match == NODE_OR_ANY && arena->numa_node < 0;
}

static bool claim_any(mx_arenas_t* arenas, const mx_slices_request_t* r, bool dirty,
                      node_match_t match, mx_slices_t* out) {
  const size_t count = mx_load_acquire(&arenas->count);
  for (size_t i = 0; i < count; i++) {
    mx_arena_t* arena = mx_arena_at(arenas, i);
    if (!suits(arena, r, match)) continue;
    if (r->is_growing && r->align == 1 && claim_place(arenas, arena, r, out)) return true;
    if (claim_in(arenas, arena, r, dirty, out)) return true;
  }
  return false;
}

static bool claim_dirty_or_fresh(mx_arenas_t* arenas, const mx_slices_request_t* r,
                                 node_match_t match, mx_slices_t* out) {
  const bool has_dirty = mx_load_relaxed(&arenas->waiting) > 0;
  if (has_dirty && r->count <= DIRTY_FIRST_MAX && claim_any(arenas, r, true, match, out)) {
    return true;
  }
  return claim_any(arenas, r, false, match, out);
}

static bool claim(mx_arenas_t* arenas, const mx_slices_request_t* r, mx_slices_t* out) {
  return claim_dirty_or_fresh(arenas, r, NODE_OR_ANY, out) ||
         (r->numa_node >= 0 && claim_any(arenas, r, false, NODE_IGNORED, out));
}

// Without room to grow: where addresses are short, that is better than nothing.
static bool claim_bare(mx_arenas_t* arenas, const mx_slices_request_t* r, mx_slices_t* out) {
  mx_slices_request_t bare = *r;
  bare.room = bare.dirty_room = r->count;
  return r->room > r->count && claim(arenas, &bare, out);
}

// Free slices that are being purged are the purger's for that moment. Where no other arena can be
// had that is worth waiting for, but not without end: a commit function may allocate itself.
static mx_noinline bool claim_patiently(mx_arenas_t* arenas, const mx_slices_request_t* r,
                                        mx_slices_t* out) {
  const uint64_t begin = mx_os_clock_msecs();
  for (;;) {
    const int64_t seen = mx_load_relaxed(&mx_process_counters.arena_purges);
    const bool was_purging = (mx_load_acquire(&arenas->purging) != 0);
    if (claim(arenas, r, out) || claim_bare(arenas, r, out)) return true;
    const bool missed_none =
        (!was_purging && mx_load_relaxed(&mx_process_counters.arena_purges) == seen);
    const bool is_purging = (mx_load_acquire(&arenas->purging) != 0);
    if (missed_none && !is_purging) return false;
    if (mx_os_clock_msecs() - begin > PURGE_WAIT_MSECS) return false;
    if (is_purging) mx_os_yield();
  }
}

// From an arena of the very node, which is made if need be.
static bool claim_on_node(mx_arenas_t* arenas, const mx_slices_request_t* r, mx_slices_t* out) {
  if (r->numa_node < 0 || r->arena != NULL) return false;
  if (claim_dirty_or_fresh(arenas, r, NODE_EXACT, out)) return true;
  if (mx_option(disallow_os_alloc) != 0) return false;
  const size_t align_room = (r->align > 1 ? r->align : 0);
  return mx_arena_reserve(arenas, r->count + align_room, r->numa_node) != NULL &&
         claim_any(arenas, r, false, NODE_EXACT, out);
}

bool mx_slices_alloc(mx_arenas_t* arenas, const mx_slices_request_t* r, mx_slices_t* out) {
  if (mx_option(disallow_arena_alloc) != 0 && r->arena == NULL) return false;
  if (!mx_arenas_allow(arenas, r->count * MX_SLICE_SIZE)) return false;
  if (claim_on_node(arenas, r, out)) return true;
  for (unsigned tries = 0; tries < 4; tries++) {
    const size_t seen = mx_load_acquire(&arenas->count);
    if (claim(arenas, r, out)) return true;
    if (r->arena != NULL || mx_option(disallow_os_alloc) != 0) {
      return claim_patiently(arenas, r, out);
    }
    // Another thread may have brought an arena while this one searched.
    if (mx_load_acquire(&arenas->count) != seen) continue;
    const size_t align_room = (r->align > 1 ? r->align : 0);
    const size_t bytes = (r->count + align_room) * MX_SLICE_SIZE;
    if (mx_option(allow_large_os_pages) > 0 &&
        mx_arena_reserve_large_pages(arenas, mx_max(bytes, MX_ARENA_MIN_SIZE), false) != NULL) {
      continue;
    }
    if (mx_arena_reserve(arenas, r->count + align_room, -1) == NULL) {
      return claim_patiently(arenas, r, out);
    }
  }
  return false;
}

// Which slices of a run that is given back hold something: a page may not have been carved to its
// end, a huge block may have moved away.
static void mark_dirty(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count) {
  const size_t per_slice = mx_arena_bits_per_slice();
  if (mx_bits_count(arena->present, index * per_slice, count * per_slice) == count * per_slice) {
    mx_bits_set(arena->dirty, index, count);
    if (!arena->is_pinned) mx_arena_schedule_purge(arenas, arena, index, count);
    return;
  }
  for (size_t i = index; i < index + count;) {
    size_t n = 0;
    while (i + n < index + count &&
           mx_bits_count(arena->present, (i + n) * per_slice, per_slice) > 0) n++;
    if (n == 0) {
      mx_bits_clear(arena->dirty, i++, 1);
      continue;
    }
    mx_bits_set(arena->dirty, i, n);
    if (!arena->is_pinned) mx_arena_schedule_purge(arenas, arena, i, n);
    i += n;
  }
}

void mx_slices_free(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count) {
  mx_add_relaxed(&arenas->in_use, -(intptr_t)count);
  mark_dirty(arenas, arena, index, count);
  mx_bits_set(arena->free, index, count);
  mx_add_relaxed(&arena->free_slices, count);
  size_t low = mx_load_relaxed(&arena->low_hint);
  while (index < low && !mx_cas_weak_acq_rel(&arena->low_hint, &low, index)) {}
  if (!arena->is_pinned) mx_arenas_after_free(arenas);
}

bool mx_slices_extend(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count,
                      bool* is_zero) {
  if (index + count > arena->slices) return false;
  if (!mx_arenas_allow(arenas, count * MX_SLICE_SIZE)) return false;
  if (!mx_bits_try_claim(arena->free, index, count)) return false;
  return prepare(arenas, arena, index, count, is_zero);
}
