// SPDX-License-Identifier: MIT
// Plots: 64 slices of addresses that belong to one heap as long as the process lives.
//
// Slices of a plot become free and are purged as any others; two words of the plot say which heap
// may have them next. `used` has the slices that any heap ever had, and never loses one; `own`
// those of them that the plot's present heap had. A heap may take what is free and its own, or free
// and never used.
//
// When the heap has gone and all of the plot's slices are free, `own` becomes empty. What was not
// used yet goes to the next heap. A plot of which MX_PLOT_SHARE slices were used is spent; an arena
// of which all plots are spent is unmapped, and its records go but for the first OS page. Addresses
// are all that stays.
#include <string.h>

#include "../base/facts.h"
#include "../mem/pagemap.h"
#include "../os/os.h"
#include "../os/thread.h"
#include "plots.h"

uint64_t mx_plot_free(const mx_plot_t* plot) {
  const mx_arena_t* const arena = plot->arena;
  const size_t first = mx_plot_word(plot) * MX_WORD_BITS;
  const size_t usable = mx_load_relaxed(&arena->usable);
  if (usable <= first) return 0;
  const uint64_t free = mx_load_relaxed(&arena->free[mx_plot_word(plot)]);
  return usable - first >= MX_WORD_BITS ? free : free & mx_plot_run(0, usable - first);
}

uint64_t mx_partition_at(const mx_arena_t* arena, size_t index) {
  mx_check(index < arena->slices);
  if (arena->plots == NULL) return 0;
  return mx_load_relaxed(&arena->plots[index / MX_WORD_BITS].partition);
}

// ---- the end of plots and arenas ---------------------------------------------------------------

// Nothing of the arena will be used any more: what it has in memory goes.
static void spend(mx_arena_t* arena) {
  if (!mx_arena_claim(arena, 0, arena->slices)) return;  // a purger has some, or somebody was first
  if (mx_bits_count(arena->committed, 0, arena->slices) != 0) return;
  uint8_t* const from = (uint8_t*)mx_align_up((uintptr_t)(arena + 1), mx_facts.os_page);
  const size_t size = (size_t)((uint8_t*)(void*)arena + arena->meta_size - from);
  mx_store_relaxed(&arena->free_slices, (size_t)0);
  if (!mx_os_purge(from, size)) memset(from, 0, size);
  mx_pagemap_forget(arena->start, arena->slices);
  mx_store_release(&arena->is_spent, 1);
  // No search for slices looks there, and a walk over pages passes it.
  mx_arena_put_back(arena, 0, arena->slices);
}

void mx_plots_spend(mx_arenas_t* arenas, mx_arena_t* arena) {
  if (mx_load_relaxed(&arena->plots_spent) < arena->words) return;
  if (mx_load_acquire(&arena->is_spent) != 0) return;
  mx_call_enter();
  mx_arena_unmap_free(arenas, arena);
  spend(arena);
  mx_call_leave();
}

static void finish(mx_arenas_t* arenas, mx_plot_t* plot) {
  mx_arena_t* const arena = plot->arena;
  mx_check(mx_load_relaxed(&plot->refs) == 0 && mx_load_relaxed(&plot->partition) != 0);
  mx_store_relaxed(&plot->own, (uint64_t)0);
  mx_store_relaxed(&plot->partition, (uint64_t)0);
  const uint64_t used = mx_load_relaxed(&plot->used);
  if (mx_popcount(used) < MX_PLOT_SHARE && (mx_plot_free(plot) & ~used) != 0) {
    mx_lock_acquire(&arenas->lock);
    plot->next = arenas->plots_left;
    arenas->plots_left = plot;
    mx_lock_release(&arenas->lock);
    return;
  }
  if (mx_add_acq_rel(&arena->plots_spent, 1) + 1 == arena->words) mx_plots_spend(arenas, arena);
}

void mx_plot_let_go(mx_arenas_t* arenas, mx_plot_t* plot, size_t refs) {
  mx_check(refs > 0 && mx_load_relaxed(&plot->refs) >= refs);
  if (mx_add_acq_rel(&plot->refs, 0 - refs) == refs) finish(arenas, plot);
}

void mx_plot_leave(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count) {
  mx_check(index / MX_WORD_BITS == (index + count - 1) / MX_WORD_BITS);
  mx_plot_let_go(arenas, &arena->plots[index / MX_WORD_BITS], count);
}

void mx_plot_note_use(mx_plot_t* plot, uint64_t run, size_t count) {
  mx_check(mx_popcount(run) == count);
  mx_or_acq_rel(&plot->used, run);
  mx_or_acq_rel(&plot->own, run);
  mx_add_acq_rel(&plot->refs, count);
}

bool mx_plot_can_grow(const mx_arena_t* arena, size_t index, size_t count) {
  mx_check(index > 0 && count > 0);
  if (index / MX_WORD_BITS != (index - 1) / MX_WORD_BITS) return false;
  if (index % MX_WORD_BITS + count > MX_WORD_BITS) return false;
  const mx_plot_t* const plot = &arena->plots[index / MX_WORD_BITS];
  const uint64_t run = mx_plot_run(index % MX_WORD_BITS, count);
  const uint64_t may = mx_load_relaxed(&plot->own) | ~mx_load_relaxed(&plot->used);
  return (may & run) == run;
}

void mx_plot_has_grown(mx_arena_t* arena, size_t index, size_t count) {
  const uint64_t run = mx_plot_run(index % MX_WORD_BITS, count);
  mx_plot_note_use(&arena->plots[index / MX_WORD_BITS], run, count);
}
