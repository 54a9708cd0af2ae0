// SPDX-License-Identifier: MIT
// The allocation of slices: lowest address first, and used (dirty) slices before fresh ones,
// because a fresh OS page costs a fault and resident memory.
#include "../base/facts.h"
#include "../base/options.h"
#include "../mem/vmem.h"
#include "../os/os.h"
#include "arena.h"
#include "plots.h"

// Runs of at most this many slices are looked for among dirty slices first.
#define DIRTY_FIRST_MAX 64

#define PURGE_WAIT_MSECS 1000  // for slices that somebody purges

// A run that was claimed and cannot be had whole is free as it was.
static void give_up(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count) {
  mx_check(count > 0 && index + count <= arena->slices);
  for (size_t i = index; i < index + count; i++) {
    if (!mx_bits_test(arena->dirty, i) || arena->is_pinned) continue;
    mx_arena_schedule_purge(arenas, arena, i, 1);
  }
  mx_arena_put_back(arena, index, count);
}

// What a run that was just claimed must become before it is handed out.
static mx_commit_t prepare(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count,
                           bool is_carved, bool* is_zero) {
  mx_check(mx_bits_count(arena->free, index, count) == 0);
  const size_t dirty = mx_bits_count(arena->dirty, index, count);
  *is_zero = (dirty == 0);
  // The thread that noted that this run waits counted it before the run could be claimed again.
  const bool may_wait = (mx_load_relaxed(&arena->purgeable_count) > 0);
  const size_t waited = (may_wait ? mx_bits_clear(arena->purgeable, index, count) : 0);
  if (waited > 0) mx_arena_count_purgeable(arenas, arena, -(intptr_t)waited);
  mx_check(mx_bits_count(arena->purgeable, index, count) == 0);
  mx_commit_t result = MX_COMMIT_DONE;
  if (MX_PARTS && is_carved && mx_os_is_scarce() && mx_arena_may_have_parts(arena)) {
    mx_store_relaxed(&arena->has_parts, true);
  } else {
    result = mx_arena_commit(arenas, arena, index, count, is_zero);
  }
  if (result != MX_COMMIT_DONE) {
    give_up(arenas, arena, index, count);
    return result;
  }
  mx_check(mx_bits_count(arena->committed, index, count) == count ||
           (MX_PARTS && mx_load_relaxed(&arena->has_parts)));
  // Memory that a commit function did not clear counts as present, as all that is not zero does.
  if (!*is_zero && dirty < count && arena->commit_fn != NULL) {
    mx_arena_touch(arena, mx_arena_slice(arena, index), count * MX_SLICE_SIZE);
  }
  // A page of blocks takes slices when it carves into them. Of huge blocks those that make them
  // know what is fresh.
  if (is_carved && dirty < count && !mx_arena_has_plots(arena)) {
    mx_arenas_note_fresh(arenas, count - dirty);
  }
  mx_add_relaxed(&arena->free_slices, -count);
  mx_add_relaxed(&arenas->in_use, (intptr_t)count);
  return MX_COMMIT_DONE;
}

// The first run of `n` free slices from `from` on that were used before. Where there are no records
// no page began: at most the end of one lay there.
static size_t find_used(const mx_arena_t* arena, size_t n, size_t from, size_t align) {
  const size_t usable = mx_load_relaxed(&arena->usable), shift = arena->record_shift;
  const size_t offset = (uintptr_t)arena->start / MX_SLICE_SIZE;
  const uint64_t recorded = mx_load_relaxed(&arena->recorded), parts = recorded | recorded << 1;
  for (size_t part = from >> shift; part < MX_WORD_BITS && parts >> part != 0;) {
    const size_t first = part + mx_bit_low(parts >> part);
    const uint64_t clear = ~(parts >> first);
    part = (clear == 0 ? MX_WORD_BITS : first + mx_bit_low(clear));
    const size_t i = mx_bits_find_run(arena->free, arena->dirty, mx_min(part << shift, usable), n,
                                      mx_max(from, first << shift), align, offset);
    if (i != SIZE_MAX) return i;
  }
  return SIZE_MAX;
}

// A run that is dirty all over, or else one that begins with a dirty slice: pages take their slices
// from the start on, so the first ones are what will be touched.
static size_t find_dirty(const mx_arena_t* arena, const mx_slices_request_t* r, size_t from) {
  mx_check(r->count > 0 && r->count <= r->room);
  const size_t bits = mx_load_relaxed(&arena->usable);
  const size_t offset = (uintptr_t)arena->start / MX_SLICE_SIZE;
  const size_t whole = find_used(arena, r->count, from, r->align);
  if (whole != SIZE_MAX || r->count == 1) return whole;
  for (;;) {
    const size_t i = find_used(arena, 1, from, r->align);
    if (i == SIZE_MAX) return SIZE_MAX;
    from = mx_bits_find_run(arena->free, NULL, bits, r->count, i, r->align, offset);
    if (from == i || from == SIZE_MAX) return from;
  }
}

// Fresh runs of different lengths begin in different quarters of an arena, so that what is long
// finds room for long. Growing pages begin as far from each other as they may grow.
static size_t home_of(const mx_arena_t* arena, size_t room) {
  mx_check(room > 1);
  if (room == MX_MEDIUM_PAGE_SLICES) return arena->slices / 4;
  return room == MX_LARGE_PAGE_SLICES ? arena->slices / 2 : arena->slices / 4 * 3;
}

static size_t find_clean(const mx_arenas_t* arenas, const mx_arena_t* arena,
                         const mx_slices_request_t* r, size_t from) {
  mx_check(r->count <= r->room && r->align > 0);
  const size_t i = (MX_SCATTER ? mx_scatter_find(arenas, arena, r, from) : SIZE_MAX);
  if (i != SIZE_MAX) return i;
  const bool grows = (r->room > r->count);
  const size_t align = (grows ? r->room : r->align);
  const size_t offset = (grows ? 0 : (uintptr_t)arena->start / MX_SLICE_SIZE);
  return mx_bits_find_run(arena->free, NULL, mx_load_relaxed(&arena->usable), r->room, from, align,
                          offset);
}

static size_t find_place(const mx_arenas_t* arenas, const mx_arena_t* arena,
                         const mx_slices_request_t* r, bool dirty, size_t from) {
  return dirty ? find_dirty(arena, r, from) : find_clean(arenas, arena, r, from);
}

// Whether only the length of a run counts.
static bool is_plain_run(const mx_slices_request_t* r) {
  return r->room == r->count && r->align == 1;
}

// Nothing was found: the next searches for as much pass this arena over. True: something became
// free meanwhile.
static bool note_lack(const mx_arenas_t* arenas, mx_arena_t* arena, const mx_slices_request_t* r,
                      bool dirty) {
  mx_atomic(size_t)* const lacks = (dirty ? &arena->lacks_dirty : &arena->lacks);
  const bool counts = (dirty ? r->align == 1 : is_plain_run(r));
  if (!counts || mx_load_relaxed(lacks) <= r->count) return false;
  mx_store_relaxed(lacks, r->count);
  mx_fence_seq_cst();
  if (find_place(arenas, arena, r, dirty, 0) == SIZE_MAX) return false;
  mx_store_relaxed(lacks, SIZE_MAX);
  return true;
}

static mx_commit_t hand_out(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count,
                            bool is_carved, mx_slices_t* out) {
  mx_check(count > 0 && index + count <= arena->slices);
  mx_check(mx_bits_count(arena->free, index, count) == 0);
  out->arena = arena;
  out->index = index;
  out->count = count;
  out->start = mx_arena_slice(arena, index);
  const mx_commit_t result = mx_arena_reach_record(arenas, arena, index);
  if (result != MX_COMMIT_DONE) {
    mx_arena_put_back(arena, index, count);
    return result;
  }
  return prepare(arenas, arena, index, count, is_carved, &out->is_zero);
}

mx_commit_t mx_slices_hand_out(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count,
                               mx_slices_t* out) {
  return hand_out(arenas, arena, index, count, false, out);
}

// Blocks that grow side by side would be in each other's way all the time. So one that cannot grow
// where it is moves to a place far from others, of which there are some at the end of an arena.
#define GROWING_PLACE ((size_t)512)

// What came of a search: nothing is free; a run; the OS gives no memory for one, nor for another.
typedef enum claim_e { CLAIM_NONE, CLAIM_DONE, CLAIM_REFUSED } claim_t;

static claim_t claim_place(mx_arenas_t* arenas, mx_arena_t* arena, const mx_slices_request_t* r,
                           mx_slices_t* out) {
  mx_check(r->is_growing && r->align == 1);
  const size_t room = mx_max(mx_align_up(2 * r->count, GROWING_PLACE), GROWING_PLACE);
  const size_t offset = (uintptr_t)arena->start / MX_SLICE_SIZE;
  size_t i = mx_align_up(offset + arena->slices / 8 * 7, GROWING_PLACE) - offset;
  for (; i + room <= mx_load_relaxed(&arena->usable); i += GROWING_PLACE) {
    if (mx_bits_count(arena->free, i, room) != room) continue;
    if (!mx_arena_claim(arena, i, r->count)) continue;
    const mx_commit_t result = hand_out(arenas, arena, i, r->count, r->is_carved, out);
    if (result != MX_COMMIT_TAKEN) return result == MX_COMMIT_DONE ? CLAIM_DONE : CLAIM_REFUSED;
  }
  return CLAIM_NONE;
}

static claim_t claim_in(mx_arenas_t* arenas, mx_arena_t* arena, const mx_slices_request_t* r,
                        bool dirty, mx_slices_t* out) {
  size_t hint = mx_load_relaxed(&arena->low_hint);
  size_t from = (dirty || r->room == 1 ? hint : home_of(arena, r->room));
  for (;;) {
    const size_t i = find_place(arenas, arena, r, dirty, from);
    if (i == SIZE_MAX) {
      if (from == 0 && !note_lack(arenas, arena, r, dirty)) return CLAIM_NONE;
      from = 0;  // the hint may have been too high
      if (r->room == 1) mx_store_relaxed(&arena->low_hint, hint = 0);
      continue;
    }
    if (!mx_arena_claim(arena, i, r->count)) {
      mx_counter_add(&mx_process_counters.arena_rollback_count, 1);
      from = i;
      continue;
    }
    const mx_commit_t result = hand_out(arenas, arena, i, r->count, r->is_carved, out);
    if (result == MX_COMMIT_REFUSED) return CLAIM_REFUSED;
    if (result == MX_COMMIT_TAKEN) continue;  // the arena has become shorter
    if (r->room == 1 && !dirty && !mx_scatter_serves(arenas, arena, r)) {
      // Somebody may have given back slices before it, since it was looked for.
      mx_cas_strong_acq_rel(&arena->low_hint, &hint, i);
    }
    return CLAIM_DONE;
  }
}

// A run of slices that are committed, of which the OS has not to be asked.
static size_t find_committed(const mx_arena_t* arena, const mx_slices_request_t* r, size_t from) {
  return mx_bits_find_run(arena->free, arena->committed, mx_load_relaxed(&arena->usable), r->count,
                          from, r->align, (uintptr_t)arena->start / MX_SLICE_SIZE);
}

#define SPARING_TRIES 16

// Where the OS gives no more: one of these.
static claim_t claim_sparing(mx_arenas_t* arenas, mx_arena_t* arena, const mx_slices_request_t* r,
                             bool is_joined, mx_slices_t* out) {
  size_t i = 0;
  for (unsigned tries = 0; tries < SPARING_TRIES; tries++, i++) {
    i = (is_joined ? mx_slices_find_joined(arena, r, i) : find_committed(arena, r, i));
    if (i == SIZE_MAX) return CLAIM_NONE;
    if (!mx_arena_claim(arena, i, r->count)) continue;
    const mx_commit_t result = hand_out(arenas, arena, i, r->count, r->is_carved, out);
    if (result == MX_COMMIT_DONE) return CLAIM_DONE;
  }
  return CLAIM_NONE;
}

// How much the node of a request says: it must be the arena's; that of an arena of any node will do
// as well; nothing.
typedef enum node_match_e { NODE_EXACT, NODE_OR_ANY, NODE_IGNORED } node_match_t;

static bool suits(const mx_arena_t* arena, const mx_slices_request_t* r, node_match_t match) {
  if (arena == NULL || mx_load_relaxed(&arena->free_slices) < r->count) return false;
  if (mx_load_relaxed(&arena->lacks) <= r->count) return false;
  if (r->arena != NULL ? arena != r->arena : arena->is_exclusive) return false;
  const bool is_given = (r->arena == NULL && !arena->is_on_demand);
  if (is_given && mx_option(disallow_arena_alloc) != 0) return false;
  if (r->numa_node < 0 || match == NODE_IGNORED || arena->numa_node == r->numa_node) return true;
  return match == NODE_OR_ANY && arena->numa_node < 0;
}

static bool may_have_dirty(const mx_arena_t* arena, const mx_slices_request_t* r) {
  if (mx_load_relaxed(&arena->purgeable_count) <= 0) return false;
  return mx_load_relaxed(&arena->lacks_dirty) > r->count;
}

// ---- what a thread gave back last --------------------------------------------------------------
// It is in the cache of the thread's processor, and of no other: if another thread took it, each
// line would have to travel. Until it is taken again it is free for everybody: these are hints.

#define RECENT_TRIES 4
#define RECENT_SLICE_BITS 32

// Threads have rings in turn, in the order in which they come, so that a run can be repeated.
mx_used static mx_thread_local uint32_t ring_number;  // 0: none yet

static mx_recent_t* recent_ring(mx_arenas_t* arenas) {
  static mx_at_start mx_atomic(uint32_t) given;
  uint32_t* const number = &mx_tls(ring_number);
  const bool is_first = (*number == 0);
  if (is_first) *number = mx_add_relaxed(&given, (uint32_t)1) + 1;
  mx_recent_t* const ring = &arenas->recent[MX_RECENT_RINGS - 1 - (*number - 1) % MX_RECENT_RINGS];
  // Written before it is read: one fault less for its OS page, which holds what arenas begin with.
  if (is_first) mx_add_relaxed(&ring->next, (size_t)0);
  return ring;
}

static void put_recent(mx_arenas_t* arenas, uint64_t place) {
  mx_recent_t* const ring = recent_ring(arenas);
  const size_t next = mx_load_relaxed(&ring->next);
  mx_store_relaxed(&ring->at[next % MX_RECENT_PLACES], place);
  mx_store_relaxed(&ring->next, next + 1);
}

// A request for a run needs free slices to join: what was free before one is no longer taken.
static void forget_recent(mx_arenas_t* arenas) { put_recent(arenas, 0); }

static bool claim_recent(mx_arenas_t* arenas, const mx_slices_request_t* r, mx_slices_t* out) {
  mx_recent_t* const ring = recent_ring(arenas);
  for (unsigned tries = 0; tries < RECENT_TRIES; tries++) {
    const size_t last = mx_load_relaxed(&ring->next) - 1;
    const uint64_t place = mx_load_relaxed(&ring->at[last % MX_RECENT_PLACES]);
    if (place == 0) return false;
    mx_store_relaxed(&ring->at[last % MX_RECENT_PLACES], (uint64_t)0);
    mx_store_relaxed(&ring->next, last);
    mx_arena_t* const arena = mx_arena_at(arenas, (size_t)(place >> RECENT_SLICE_BITS));
    const size_t index = (size_t)(uint32_t)place - 1;
    if (!suits(arena, r, NODE_EXACT) || index >= mx_load_relaxed(&arena->usable)) continue;
    if (!mx_bits_test(arena->free, index) || !mx_bits_test(arena->dirty, index)) continue;
    if (mx_arena_claim(arena, index, 1) &&
        hand_out(arenas, arena, index, 1, r->is_carved, out) == MX_COMMIT_DONE) {
      return true;
    }
  }
  return false;
}

// What a search may take: dirty slices only, fresh ones, too, those that are committed, or those
// behind them.
typedef enum pick_e { PICK_DIRTY, PICK_ANY, PICK_COMMITTED, PICK_JOINED } pick_t;

static claim_t claim_from(mx_arenas_t* arenas, mx_arena_t* arena, const mx_slices_request_t* r,
                          pick_t pick, mx_slices_t* out) {
  if (pick >= PICK_COMMITTED) {
    return claim_sparing(arenas, arena, r, pick == PICK_JOINED, out);
  }
  if (r->is_growing && r->align == 1) {
    const claim_t result = claim_place(arenas, arena, r, out);
    if (result != CLAIM_NONE) return result;
  }
  return claim_in(arenas, arena, r, pick == PICK_DIRTY, out);
}

// The next arena before `end` with so many free slices, or NULL; *at goes behind it. Beside
// hundreds that are nearly full this loop is what a search costs.
static mx_noinline mx_arena_t* next_roomy(const mx_arenas_t* arenas, size_t slices, size_t* at,
                                          size_t end) {
  for (size_t i = *at; i < end; i++) {
    mx_arena_t* const arena = mx_arena_at(arenas, i);
    if (arena == NULL || mx_load_relaxed(&arena->free_slices) < slices) continue;
    *at = i + 1;
    return arena;
  }
  return NULL;
}

// Searches begin behind those in front that are full.
static size_t pass_full(mx_arenas_t* arenas, size_t count) {
  const size_t first = mx_load_relaxed(&arenas->first);
  size_t next = first;
  for (; next < count; next++) {
    const mx_arena_t* const arena = mx_arena_at(arenas, next);
    if (arena == NULL || mx_load_relaxed(&arena->free_slices) != 0) break;
  }
  if (next != first) mx_store_relaxed(&arenas->first, next);
  return next;
}

// In the order in which they came, from `first` on and then those before it.
static mx_noinline claim_t claim_any(mx_arenas_t* arenas, const mx_slices_request_t* r,
                                     pick_t pick, node_match_t match, mx_slices_t* out) {
  const size_t count = mx_load_acquire(&arenas->count);
  const size_t first = pass_full(arenas, count);
  size_t next = first, end = count;
  bool is_second = false;  // those before
  for (;;) {
    mx_arena_t* const arena = next_roomy(arenas, r->count, &next, end);
    if (arena == NULL) {
      if (is_second) return CLAIM_NONE;
      is_second = true;
      next = 0;
      end = first;
      continue;
    }
    if (!suits(arena, r, match) || (pick == PICK_DIRTY && !may_have_dirty(arena, r))) continue;
    const claim_t result = claim_from(arenas, arena, r, pick, out);
    // What a function of the program's refuses says nothing of the next arena.
    const bool is_final = (result == CLAIM_REFUSED && arena->commit_fn == NULL);
    if (result == CLAIM_DONE || is_final) return result;
  }
}

static mx_noinline claim_t claim_dirty_or_fresh(mx_arenas_t* arenas, const mx_slices_request_t* r,
                                                node_match_t match, mx_slices_t* out) {
  const bool has_dirty = (mx_load_relaxed(&arenas->purgeable) > 0);
  if (has_dirty && r->count <= DIRTY_FIRST_MAX) {
    const claim_t result = claim_any(arenas, r, PICK_DIRTY, match, out);
    if (result != CLAIM_NONE) return result;
  }
  return claim_any(arenas, r, PICK_ANY, match, out);
}

static mx_noinline claim_t claim(mx_arenas_t* arenas, const mx_slices_request_t* r,
                                 mx_slices_t* out) {
  claim_t result = claim_dirty_or_fresh(arenas, r, NODE_OR_ANY, out);
  if (result == CLAIM_NONE && r->numa_node >= 0) {
    result = claim_any(arenas, r, PICK_ANY, NODE_IGNORED, out);
  }
  if (result != CLAIM_REFUSED) return result;
  claim_t other = claim_any(arenas, r, PICK_COMMITTED, NODE_IGNORED, out);
  if (other == CLAIM_NONE) other = claim_any(arenas, r, PICK_JOINED, NODE_IGNORED, out);
  return other == CLAIM_NONE ? CLAIM_REFUSED : other;
}

// Free slices that are being purged are the purger's for that moment. Where no other arena can be
// had that is worth waiting for, but not without end: a commit function may allocate itself.
static mx_noinline bool claim_patiently(mx_arenas_t* arenas, const mx_slices_request_t* r,
                                        mx_slices_t* out) {
  const uint64_t begin = mx_os_clock_msecs();
  // Without room to grow: where addresses are short, that is better than nothing.
  mx_slices_request_t bare = *r;
  bare.room = r->count;
  for (;;) {
    const int64_t seen = mx_load_relaxed(&mx_process_counters.arena_purges);
    const bool was_purging = (mx_load_acquire(&arenas->purging) != 0);
    claim_t result = claim(arenas, r, out);
    if (result == CLAIM_NONE && r->room > r->count) result = claim(arenas, &bare, out);
    if (result == CLAIM_DONE) return true;
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
  const claim_t result = claim_dirty_or_fresh(arenas, r, NODE_EXACT, out);
  if (result != CLAIM_NONE) return result == CLAIM_DONE;
  if (mx_option(disallow_os_alloc) != 0) return false;
  const size_t align_room = (r->align > 1 ? r->align : 0);
  return mx_arena_reserve(arenas, r->count + align_room, r->numa_node) != NULL &&
         claim_any(arenas, r, PICK_ANY, NODE_EXACT, out) == CLAIM_DONE;
}

static bool reserve_for(mx_arenas_t* arenas, const mx_slices_request_t* r) {
  const size_t align_room = (r->align > 1 ? r->align : 0);
  const size_t bytes = (r->count + align_room) * MX_SLICE_SIZE;
  if (mx_option(allow_large_os_pages) > 0 && mx_option(disallow_arena_alloc) == 0 &&
      mx_arena_reserve_large_pages(arenas, mx_max(bytes, MX_ARENA_MIN_SIZE), false) != NULL) {
    return true;
  }
  return mx_arena_reserve(arenas, r->count + align_room, -1) != NULL;
}

bool mx_slices_alloc(mx_arenas_t* arenas, const mx_slices_request_t* r, mx_slices_t* out) {
  mx_check(r->count > 0 && r->count <= r->room);
  mx_check(r->align > 0 && (r->align & (r->align - 1)) == 0);
  if (!mx_arenas_allow(arenas, r->count * MX_SLICE_SIZE)) return false;
  if (!MX_SCATTER && r->count > 1) forget_recent(arenas);
  else if (!MX_SCATTER && is_plain_run(r) && claim_recent(arenas, r, out)) return true;
  if (claim_on_node(arenas, r, out)) return true;
  for (unsigned tries = 0; tries < 4; tries++) {
    const size_t seen = mx_load_acquire(&arenas->count);
    const claim_t result = claim(arenas, r, out);
    if (result == CLAIM_DONE) return true;
    // Another arena would not have more memory, only more addresses.
    if (result == CLAIM_REFUSED && mx_arenas_unmap_free(arenas)) continue;
    if (result == CLAIM_REFUSED || r->arena != NULL || mx_option(disallow_os_alloc) != 0) {
      return claim_patiently(arenas, r, out);
    }
    // Another thread may have brought an arena while this one searched.
    if (mx_load_acquire(&arenas->count) != seen) continue;
    if (!reserve_for(arenas, r)) break;
  }
  return claim_patiently(arenas, r, out);
}

// Slices of which nothing was used are not accessible any more where only what is in use is.
static void drop_unused(mx_arena_t* arena, size_t index, size_t count) {
  mx_check(mx_bits_count(arena->free, index, count) == 0);
  mx_check(!mx_arena_has_present(arena, index, count));
  mx_bits_clear(arena->dirty, index, count);
  if (!MX_SCATTER || arena->is_reserved) return;
  if (MX_GUARD_PAGES) mx_bits_clear(arena->guarded, index, count);
  mx_arena_unmap_committed(arena, index, count);
}

// Which slices of a run that is given back hold something: a page may not have been carved to its
// end, a huge block may have moved away.
static void mark_dirty(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count) {
  if (MX_PARTS && mx_load_relaxed(&arena->has_parts)) {
    mx_arena_drop_parts(arena, index, count);
  }
  const size_t present = mx_arena_present_in(arena, index, count);
  if (present == count * mx_arena_bits_per_slice() || (count == 1 && present > 0)) {
    mx_bits_set(arena->dirty, index, count);
    if (!arena->is_pinned) mx_arena_schedule_purge(arenas, arena, index, count);
    return;
  }
  for (size_t i = index, n; i < index + count; i += n) {
    bool is_used = false;
    for (n = 0; i + n < index + count; n++) {
      const bool used = mx_arena_has_present(arena, i + n, 1);
      if (n > 0 && used != is_used) break;
      is_used = used;
    }
    if (!is_used) {
      drop_unused(arena, i, n);
      continue;
    }
    mx_bits_set(arena->dirty, i, n);
    if (!arena->is_pinned) mx_arena_schedule_purge(arenas, arena, i, n);
  }
}

// What the program brought comes first, then what came early.
static void note_not_full(mx_arenas_t* arenas, const mx_arena_t* arena) {
  mx_check(mx_load_relaxed(&arena->item) < MX_ARENAS_MAX);
  const size_t item = mx_load_relaxed(&arena->item);
  if (arena->is_exclusive) return;
  if (!arena->is_on_demand || item < mx_load_relaxed(&arenas->first)) {
    mx_store_relaxed(&arenas->first, item);
  }
}

void mx_slices_free(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count) {
  mx_check(count > 0 && index + count <= arena->slices);
  mx_check(mx_bits_count(arena->free, index, count) == 0);
  mx_check(mx_bits_count(arena->purgeable, index, count) == 0);
  mx_add_relaxed(&arenas->in_use, -(intptr_t)count);
  const uint64_t item = mx_load_relaxed(&arena->item);
  if (!MX_SCATTER && count == 1) put_recent(arenas, item << RECENT_SLICE_BITS | (index + 1));
  mark_dirty(arenas, arena, index, count);
  mx_arena_put_back(arena, index, count);
  if (mx_add_relaxed(&arena->free_slices, count) == 0) note_not_full(arenas, arena);
  if (!arena->is_pinned) mx_arenas_after_free(arenas);
  if (mx_arena_has_plots(arena)) mx_plot_leave(arenas, arena, index, count);
}

#define FIRST_PART_TRIES 4

// Of a fresh page whose slices are mapped in part.
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

bool mx_slices_wait_elsewhere(const mx_arena_t* arena, size_t index, size_t need, size_t run) {
  mx_check(need > 0 && need <= run && need <= index);
  if (MX_SCATTER || mx_arena_has_plots(arena) || arena->is_exclusive) return false;
  if (mx_load_relaxed(&arena->purgeable_count) < (intptr_t)run) return false;
  const size_t usable = mx_load_relaxed(&arena->usable);
  if (mx_load_relaxed(&arena->lacks_dirty) <= run || index + need > usable) return false;
  if (!mx_arena_is_there(arena, index - need, need)) return false;
  if (mx_arena_is_there(arena, index, need)) return false;
  const size_t i = find_used(arena, run, 0, 1);
  return i != SIZE_MAX && mx_arena_is_there(arena, i, run);
}

bool mx_slices_extend(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count,
                      bool is_carved) {
  mx_check(count > 0 && index > 0 && !mx_bits_test(arena->free, index - 1));
  if (index + count > mx_load_relaxed(&arena->usable)) return false;
  const bool is_in_plot = mx_arena_has_plots(arena);
  if (is_in_plot && !mx_plot_can_grow(arena, index, count)) return false;
  if (!mx_arenas_allow(arenas, count * MX_SLICE_SIZE)) return false;
  if (!mx_arena_claim(arena, index, count)) return false;
  if (is_in_plot) mx_plot_has_grown(arena, index, count);
  bool is_zero;
  if (prepare(arenas, arena, index, count, is_carved, &is_zero) == MX_COMMIT_DONE) return true;
  if (is_in_plot) mx_plot_leave(arenas, arena, index, count);
  return false;
}
