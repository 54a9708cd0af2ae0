// SPDX-License-Identifier: MIT
// Plots: addresses that belong to one heap as long as the process lives.
#ifndef MX_ARENA_PLOTS_H
#define MX_ARENA_PLOTS_H

#include "arena.h"

// Slices of a plot of which one is used, so that stray writes are likely to fault.
#define MX_PLOT_SHARE 8

mx_inline size_t mx_plot_word(const mx_plot_t* plot) {
  return (size_t)(plot - plot->arena->plots);
}

mx_inline uint64_t mx_plot_run(size_t i, size_t n) {
  mx_check(n > 0 && i + n <= MX_WORD_BITS);
  return (n == MX_WORD_BITS ? UINT64_MAX : ((uint64_t)1 << n) - 1) << i;
}

MX_BEGIN_DECLS
// Slices of the plot that are free and can be handed out.
uint64_t mx_plot_free(const mx_plot_t* plot);
// A run that the plot's heap has claimed is its own from now on, and holds the plot.
void mx_plot_note_use(mx_plot_t* plot, uint64_t run, size_t count);
// So many of what held the plot do so no more.
void mx_plot_let_go(mx_arenas_t* arenas, mx_plot_t* plot, size_t refs);
// The same for slices that are free again.
void mx_plot_leave(mx_arenas_t* arenas, mx_arena_t* arena, size_t index, size_t count);
// Whether the slices in front of a run may get it, too; and that they have.
bool mx_plot_can_grow(const mx_arena_t* arena, size_t index, size_t count);
void mx_plot_has_grown(mx_arena_t* arena, size_t index, size_t count);
// Unmaps an arena whose plots are all spent, if it can be done now.
void mx_plots_spend(mx_arenas_t* arenas, mx_arena_t* arena);
// The partition that has a slice, or 0.
uint64_t mx_partition_at(const mx_arena_t* arena, size_t index);
MX_END_DECLS

#endif
