// SPDX-License-Identifier: MIT
// The map of arenas. A line stands for 64 slices; lines without a slice that was ever used are
// summed up in one. Other threads go on meanwhile, so what it shows is of about one moment.
#include "../page/remote.h"
#include "arena_map.h"

#define SLICES_PER_LINE ((size_t)64)

static const char map_legend[] =
    "  s m l  a page of small, medium or large blocks; capital: that no thread owns\n"
    "  h      a huge block          -  goes on from before\n"
    "  ~      free, to be purged    :  free, holds memory     .  free, holds none\n";

static char page_letter(const mx_page_t* page) {
  if (mx_page_is_huge(page)) return 'h';
  const bool has_thread = mx_page_has_thread(page);
  if (page->slice_count == 1) return has_thread ? 's' : 'S';
  if (page->slice_count <= MX_MEDIUM_PAGE_SLICES) return has_thread ? 'm' : 'M';
  return has_thread ? 'l' : 'L';
}

static char slice_letter(const mx_arena_t* arena, size_t i) {
  if (mx_bits_test(arena->free, i)) {
    if (mx_bits_test(arena->purgeable, i)) return '~';
    return mx_bits_test(arena->dirty, i) ? ':' : '.';
  }
  const mx_page_t* const page = mx_pagemap_get(arena->start + i * MX_SLICE_SIZE);
  return page == mx_arena_record(arena, i) ? page_letter(page) : '-';
}

static bool print_line(const mx_arena_t* arena, size_t first, mx_out_t* out) {
  char text[SLICES_PER_LINE + 1];
  size_t n = 0;
  bool is_empty = true;
  for (; n < SLICES_PER_LINE && first + n < arena->slices; n++) {
    text[n] = slice_letter(arena, first + n);
    if (text[n] != '.') is_empty = false;
  }
  mx_check(n < sizeof(text));
  text[n] = 0;
  if (is_empty) return false;
  mx_out_add(out, "  %p  %s\n", (void*)(arena->start + first * MX_SLICE_SIZE), text);
  return true;
}

static void print_arena(const mx_arena_t* arena, mx_out_t* out) {
  const size_t free_slices = mx_load_relaxed(&arena->free_slices);
  mx_out_add(out, "arena %zu: %p, %zu MiB, %zu slices of %zu KiB, %zu in use", arena->id,
             (void*)arena->start, arena->slices * MX_SLICE_SIZE / MX_MIB, arena->slices,
             MX_SLICE_SIZE / MX_KIB, arena->slices - free_slices);
  if (arena->numa_node >= 0) mx_out_add(out, ", node %d", arena->numa_node);
  mx_out_add(out, "%s%s%s\n", arena->is_exclusive ? ", exclusive" : "",
             arena->is_pinned ? ", pinned" : "", arena->mapping == NULL ? ", not ours" : "");
  size_t skipped = 0;
  for (size_t i = 0; i < arena->slices; i += SLICES_PER_LINE) {
    if (!print_line(arena, i, out)) skipped += mx_min(SLICES_PER_LINE, arena->slices - i);
  }
  if (skipped > 0) mx_out_add(out, "  and %zu free slices that hold no memory\n", skipped);
}

void mx_arena_map_print(mx_subproc_t* subproc, mx_out_t* out) {
  mx_call_do_pending();
  const size_t count = mx_load_acquire(&subproc->arenas.count);
  mx_out_add(out, "arenas: %zu\n", count);
  if (count > 0) mx_out_add(out, "%s", map_legend);
  for (size_t i = 0; i < count; i++) {
    const mx_arena_t* const arena = mx_arena_at(&subproc->arenas, i);
    if (arena != NULL) print_arena(arena, out);
  }
}
