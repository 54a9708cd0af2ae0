// SPDX-License-Identifier: MIT
// Partitions: where a heap's slices come from that has addresses of its own (see plots.c).
//
// First-class heaps of hardened builds take them from arenas that only such heaps use, each from
// plots that it alone has. Pages lie at random places of a plot, with addresses between them that
// nobody has, as scatter.c has it in other arenas; a page for each MX_PLOT_SHARE slices.
//
// Addresses come again only when there are no others for an arena: then the one that was spent
// first serves anew.
#include "partition.h"

#include "../base/options.h"
#include "../mem/random.h"

#define LOOKS 64         // plots that a search for free slices looks at
#define PLACE_TRIES 8
#define CLAIM_TRIES 64   // for other threads of the heap take slices, too
#define LARGE_GAP ((size_t)16)  // a page as long as a plot begins among so many slices, or has
                                // as many where others were

void mx_partition_begin(mx_partition_t* partition, uint64_t id) {
  mx_check(id != 0 && partition->id == 0);
  mx_store_relaxed(&partition->plots, (mx_plot_t*)NULL);
  mx_store_relaxed(&partition->look_at, (mx_plot_t*)NULL);
  partition->id = id;
}

void mx_partition_end(mx_arenas_t* arenas, mx_partition_t* partition) {
  mx_check(partition->id == 0);
  mx_plot_t* next = mx_load_relaxed(&partition->plots);
  for (mx_plot_t* plot; (plot = next) != NULL;) {
    next = plot->next;
    plot->has_heap = false;
    mx_plot_let_go(arenas, plot, 1);
  }
}

// ---- plots -------------------------------------------------------------------------------------

static mx_plot_t* take_left(mx_arenas_t* arenas) {
  mx_check(mx_lock_is_mine(&arenas->lock));
  mx_plot_t* const plot = arenas->plots_left;
  if (plot != NULL) arenas->plots_left = plot->next;
  return plot;
}

// Of the arena that plots are taken from in their order.
static mx_plot_t* take_fresh(mx_arenas_t* arenas) {
  mx_check(mx_lock_is_mine(&arenas->lock));
  mx_arena_t* const arena = arenas->plot_arena;
  if (arena == NULL || arenas->next_plot >= arena->words) return NULL;
  mx_plot_t* const plot = &arena->plots[arenas->next_plot++];
  plot->arena = arena;
  return plot;
}

// The arena that was spent first, as if it were new.
static mx_arena_t* renew_arena(mx_arenas_t* arenas) {
  mx_check(mx_lock_is_mine(&arenas->lock));
  const size_t count = mx_load_acquire(&arenas->count);
  for (size_t n = 0; n < count; n++) {
    arenas->renew_at = (arenas->renew_at + 1) % count;
    mx_arena_t* const arena = mx_arena_at(arenas, arenas->renew_at);
    if (arena == NULL || mx_load_acquire(&arena->is_spent) == 0) continue;
    mx_store_relaxed(&arena->is_spent, 0);
    mx_store_relaxed(&arena->plots_spent, (size_t)0);
    mx_store_relaxed(&arena->usable, arena->slices);
    mx_store_relaxed(&arena->free_slices, arena->slices);
    return arena;
  }
  return NULL;
}

static bool add_arena(mx_arenas_t* arenas) {
  if (mx_option(disallow_os_alloc) != 0) return false;
  for (size_t i = mx_load_acquire(&arenas->count); i-- > 0;) {
    mx_arena_t* const arena = mx_arena_at(arenas, i);
    if (arena != NULL && arena->plots != NULL) mx_plots_spend(arenas, arena);
  }
  mx_arena_t* fresh = mx_arena_reserve_plots(arenas);
  mx_lock_acquire(&arenas->lock);
  if (fresh == NULL) fresh = renew_arena(arenas);
  if (fresh != NULL) {
    arenas->plot_arena = fresh;
    arenas->next_plot = 0;
  }
  mx_lock_release(&arenas->lock);
  return fresh != NULL;
}

static mx_plot_t* take_plot(mx_arenas_t* arenas) {
  for (;;) {
    mx_lock_acquire(&arenas->lock);
    mx_plot_t* plot = take_left(arenas);
    if (plot == NULL) plot = take_fresh(arenas);
    mx_lock_release(&arenas->lock);
    if (plot != NULL || !add_arena(arenas)) return plot;
  }
}

static bool add_plot(mx_arenas_t* arenas, mx_partition_t* partition) {
  mx_plot_t* const plot = take_plot(arenas);
  if (plot == NULL) return false;
  mx_check(mx_load_relaxed(&plot->refs) == 0 && mx_load_relaxed(&plot->partition) == 0);
  mx_store_relaxed(&plot->partition, partition->id);
  mx_store_relaxed(&plot->refs, (size_t)1);
  plot->has_heap = true;
  plot->next = mx_load_relaxed(&partition->plots);
  while (!mx_cas_weak_acq_rel(&partition->plots, &plot->next, plot)) {}
  return true;
}

// ---- places ------------------------------------------------------------------------------------

// Slices that the heap had before, those that are mapped first.
static size_t find_own(const mx_plot_t* plot, const mx_slices_request_t* r) {
  const uint64_t own = mx_plot_free(plot) & mx_load_relaxed(&plot->own);
  if (own == 0) return SIZE_MAX;
  const uint64_t committed = mx_load_relaxed(&plot->arena->committed[mx_plot_word(plot)]);
  const size_t i = mx_bits_find_in(own & committed, r->count);
  return i != SIZE_MAX ? i : mx_bits_find_in(own, r->count);
}

// Slices that nobody had, apart from those in use.
static size_t find_unused(const mx_plot_t* plot, const mx_slices_request_t* r) {
  const uint64_t used = mx_load_relaxed(&plot->used), free = mx_plot_free(plot) & ~used;
  if (mx_popcount(used) >= MX_PLOT_SHARE) return SIZE_MAX;
  // Long pages have nearly all of a fresh plot, or become shorter.
  const size_t most = mx_max(used == 0 ? MX_WORD_BITS - LARGE_GAP : LARGE_GAP, r->count);
  uint64_t random = mx_random64();
  for (unsigned tries = 0; tries < PLACE_TRIES; tries++) {
    const size_t draw = (size_t)(mx_random_step(&random) >> 20);
    const size_t least = mx_min(r->room, most);
    const size_t i = (least < MX_WORD_BITS ? 1 + draw % (MX_WORD_BITS - least) : 0);
    const size_t room = (used == 0 ? mx_min(r->room, MX_WORD_BITS - i) : least);
    const uint64_t run = mx_plot_run(i, room);
    const uint64_t around = run | run << 1 | run >> 1;
    if (room < r->count || (used & around) != 0 || (free & run) != run) continue;
    return i;
  }
  return SIZE_MAX;
}

// Whatever the heap may have, side by side.
static size_t find_any(const mx_plot_t* plot, const mx_slices_request_t* r) {
  const uint64_t others = mx_load_relaxed(&plot->used) & ~mx_load_relaxed(&plot->own);
  const uint64_t may = mx_plot_free(plot) & ~others;
  const size_t i = mx_bits_find_in(may, mx_min(r->room, MX_WORD_BITS));
  return i != SIZE_MAX ? i : mx_bits_find_in(may, r->count);
}

typedef size_t find_fn(const mx_plot_t* plot, const mx_slices_request_t* r);

static mx_commit_t take_in(mx_arenas_t* arenas, mx_plot_t* plot, const mx_slices_request_t* r,
                           find_fn* find, mx_slices_t* out) {
  mx_check(plot->arena->plots != NULL && r->count <= MX_WORD_BITS);
  for (unsigned tries = 0; tries < CLAIM_TRIES; tries++) {
    const size_t i = find(plot, r);
    if (i == SIZE_MAX) break;
    const size_t index = mx_plot_word(plot) * MX_WORD_BITS + i;
    if (!mx_arena_claim(plot->arena, index, r->count)) continue;
    mx_check((mx_load_relaxed(&plot->used) & ~mx_load_relaxed(&plot->own) &
              mx_plot_run(i, r->count)) == 0);
    mx_plot_note_use(plot, mx_plot_run(i, r->count), r->count);
    const mx_commit_t result = mx_slices_hand_out(arenas, plot->arena, index, r->count, out);
    if (result == MX_COMMIT_DONE) return result;
    mx_plot_let_go(arenas, plot, r->count);
    if (result == MX_COMMIT_REFUSED) return result;
  }
  return MX_COMMIT_TAKEN;
}

// Goes round the plots; a search that looked at some of them is followed by one that looks at the
// others.
static mx_commit_t take_among(mx_arenas_t* arenas, mx_partition_t* partition,
                              const mx_slices_request_t* r, find_fn* find, size_t looks,
                              mx_slices_t* out) {
  mx_plot_t* const first = mx_load_acquire(&partition->plots);
  mx_plot_t* plot = mx_load_acquire(&partition->look_at);
  if (plot == NULL || looks == SIZE_MAX) plot = first;
  mx_plot_t* const begin = plot;
  mx_commit_t result = MX_COMMIT_TAKEN;
  for (size_t n = 0; plot != NULL && n < looks; n++) {
    result = take_in(arenas, plot, r, find, out);
    if (result != MX_COMMIT_TAKEN) break;
    plot = plot->next;
    if (plot == NULL && looks != SIZE_MAX) plot = first;
    if (plot == begin) break;
  }
  mx_store_release(&partition->look_at, plot);
  return result;
}

static mx_commit_t take_slices(mx_arenas_t* arenas, mx_partition_t* partition,
                               const mx_slices_request_t* r, mx_slices_t* out) {
  mx_commit_t result = take_among(arenas, partition, r, &find_own, LOOKS, out);
  if (result != MX_COMMIT_TAKEN) return result;
  const bool is_dense = mx_scatter_is_over(arenas);
  for (;;) {
    mx_plot_t* const newest = mx_load_acquire(&partition->plots);
    if (newest != NULL) {
      result = take_in(arenas, newest, r, is_dense ? &find_any : &find_unused, out);
      if (result != MX_COMMIT_TAKEN) return result;
    }
    if (!add_plot(arenas, partition)) break;
  }
  return take_among(arenas, partition, r, &find_any, SIZE_MAX, out);
}

bool mx_partition_slices(mx_arenas_t* arenas, mx_partition_t* partition,
                         const mx_slices_request_t* r, mx_slices_t* out) {
  mx_check(r->count > 0 && r->count <= MX_WORD_BITS && r->align == 1);
  if (!mx_arenas_allow(arenas, r->count * MX_SLICE_SIZE)) return false;
  mx_commit_t result = take_slices(arenas, partition, r, out);
  if (result == MX_COMMIT_REFUSED && mx_arenas_unmap_free(arenas)) {
    result = take_slices(arenas, partition, r, out);
  }
  return result == MX_COMMIT_DONE;
}
